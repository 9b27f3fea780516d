-- What is wrong now, for operators. The leader writes a row when it finds something, and deletes it when that has ended.
create table alarms (
  kind text not null,
  -- What one look covers, such as a host: what it does not find any more has ended.
  scope text not null,
  subject text not null,
  host_id uuid,
  desktop_id uuid,
  what text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (kind, scope, subject)
);
