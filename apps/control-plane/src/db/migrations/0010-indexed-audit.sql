-- What is old, without a look at what is not; and what was done to one subject, newest first.
create index audit_log_at on audit_log (at);
create index audit_log_subject on audit_log (subject, id desc);
