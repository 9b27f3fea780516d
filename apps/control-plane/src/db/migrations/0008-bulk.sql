-- One action on many desktops: a plan, and a row for each desktop.
-- serves from 0.1.0
create table bulks (
  id uuid primary key,
  org_id uuid not null references organisations (id),
  action text not null,
  -- Null if its desktops were named by their ids.
  selector text,
  -- What the action `label` changes.
  labels jsonb,
  -- The name of the credential that asked for it.
  made_by text not null,
  idempotency_key text,
  fingerprint bytea,
  created_at timestamptz not null default clock_timestamp(),
  cancelled_at timestamptz,
  -- When its last desktop has settled.
  settled_at timestamptz
);
create unique index bulks_by_key on bulks (org_id, idempotency_key) where idempotency_key is not null;
create index bulks_live on bulks (id) where settled_at is null;
-- Of one organisation, the newest first: the oldest are forgotten.
create index bulks_by_org on bulks (org_id, id);

create table bulk_desktops (
  bulk_id uuid not null references bulks (id) on delete cascade,
  desktop_id uuid not null,
  status text not null,
  operation_id uuid,
  -- Why it was skipped or has failed.
  code text,
  detail text,
  primary key (bulk_id, desktop_id)
) with (fillfactor = 70);
create index bulk_desktops_open on bulk_desktops (bulk_id, desktop_id) where status in ('waiting', 'working');
