-- Limits of an organisation's desktops whose labels match. Set by operators.
-- serves from 0.1.0
create table org_quotas (
  org_id uuid not null references organisations (id),
  name text collate "C" not null,
  selector text not null,
  max_desktops integer not null check (max_desktops >= 0),
  created_at timestamptz not null default clock_timestamp(),
  primary key (org_id, name)
);
