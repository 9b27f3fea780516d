-- One host's word raises the epoch once. After that it gets no commands until an operator trusts it again.
alter table hosts add column epoch_believed_at timestamptz;
-- While it gets none: since when, and which epoch it says it has obeyed.
alter table hosts add column withheld_at timestamptz;
alter table hosts add column withheld_epoch bigint;
