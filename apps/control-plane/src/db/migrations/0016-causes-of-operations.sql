-- Why an operation failed, for operators: `error` is for its customer. Null in what failed before: there `error` is the
-- cause, and the customer is told what the table of sentences says of `error_code`. And when each of its steps began.
alter table operations add column cause text, add column timeline jsonb not null default '[]';
