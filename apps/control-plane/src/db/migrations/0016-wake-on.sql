-- Which classes of calls wake a desktop, and the wakes that replicas want which do not lead: the leader answers, and the replica
-- removes the row.
-- serves from 0.1.0
alter table desktops add column wake_on text[] not null default '{}';

create table wakes_wanted (
  id uuid primary key,
  desktop_id uuid not null,
  org_id uuid not null,
  request_id text not null,
  wanted_at timestamptz not null default clock_timestamp(),
  operation_id uuid,
  refusal jsonb
);
