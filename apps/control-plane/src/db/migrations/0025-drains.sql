-- Drains of hosts, and what each does with every desktop of its host. The steps themselves are operations.
create table drains (
  id uuid primary key,
  host_id uuid not null references hosts,
  state text not null check (state in ('running', 'cancelling', 'drained', 'blocked', 'cancelled')),
  sleeping text not null check (sleeping in ('leave', 'move')),
  awake text not null check (awake in ('live', 'hibernate')),
  concurrency integer not null,
  grace_secs integer not null,
  deadline_secs integer not null,
  created_at timestamptz not null default now(),
  settled_at timestamptz
);
-- A host has one drain at a time.
create unique index drains_live on drains (host_id) where settled_at is null;

create table drain_desktops (
  drain_id uuid not null references drains on delete cascade,
  desktop_id uuid not null,
  status text not null check (status in ('waiting', 'working', 'moved', 'left', 'gone', 'blocked')),
  action text not null,
  operation_id uuid,
  tries integer not null,
  failures integer not null,
  -- It does not move live: it is hibernated, and then moved.
  cold boolean not null,
  hibernated boolean not null,
  retry_at timestamptz,
  -- Since when its commands and transfers delay it.
  busy_since timestamptz,
  reason jsonb,
  primary key (drain_id, desktop_id)
);
