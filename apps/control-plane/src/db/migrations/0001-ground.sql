-- The whole ground: installation, leadership, principals, hosts, desktops, operations.
create extension if not exists btree_gist;

-- Stands in every domain, manifest, pool and network on the hosts, so that two installations never touch each other's.
create table installation (
  only_one boolean primary key default true check (only_one),
  id uuid not null default gen_random_uuid(),
  created_at timestamptz not null default now()
);
insert into installation default values;

-- Safety is the epoch alone: every mutating transaction locks this row for key share and compares it.
create table leadership (
  only_one boolean primary key default true check (only_one),
  epoch bigint not null default 0,
  replica_id uuid,
  expires_at timestamptz not null default '-infinity'
);
insert into leadership default values;

create table replicas (
  id uuid primary key,
  url text not null,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);

create table organisations (
  id uuid primary key,
  name text not null,
  created_at timestamptz not null default now()
);

-- A key is kept as its SHA-256 only. org_id null: an operator's.
create table keys (
  id uuid primary key,
  org_id uuid references organisations,
  name text not null,
  hash bytea not null unique,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index keys_by_org on keys (org_id);

create table host_invites (
  id uuid primary key,
  hash bytea not null unique,
  name text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  used_at timestamptz,
  host_id uuid
);

create table hosts (
  id uuid primary key,
  name text not null,
  public_key jsonb not null,
  facts jsonb,
  vcpus integer not null default 0,
  memory_mib integer not null default 0,
  disk_gib integer not null default 0,
  images text[] not null default '{}',
  ailment text,
  last_heartbeat_at timestamptz,
  lease_until timestamptz,
  lost_at timestamptz,
  removed_at timestamptz,
  created_at timestamptz not null default now()
);

-- What a desktop holds of its host: its disk from the first placement on, processor and memory while it is up.
create table reservations (
  desktop_id uuid primary key,
  host_id uuid not null references hosts,
  vcpus integer not null,
  memory_mib integer not null,
  disk_gib integer not null
);
create index reservations_by_host on reservations (host_id);

create table desktops (
  id uuid primary key,
  org_id uuid not null references organisations,
  tier text not null,
  state text not null,
  image_version text not null,
  vcpus integer not null,
  memory_mib integer not null,
  disk_gib integer not null,
  generation bigint not null default 0,
  turn bigint not null default 0,
  current_generation_id uuid,
  idle_timeout_secs bigint not null,
  billing_mode text not null,
  host_id uuid references hosts,
  idempotency_key text,
  fingerprint bytea,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create unique index desktops_by_key on desktops (org_id, idempotency_key) where idempotency_key is not null;
create index desktops_by_org on desktops (org_id, id desc);
create index desktops_by_host on desktops (host_id) where state <> 'destroyed';

create table generations (
  id uuid primary key,
  desktop_id uuid not null references desktops,
  generation bigint not null,
  host_id uuid references hosts,
  started_at timestamptz,
  ended_at timestamptz,
  end_reason text,
  unique (desktop_id, generation)
);

create table operations (
  id uuid primary key,
  desktop_id uuid not null references desktops,
  org_id uuid not null,
  kind text not null,
  state text not null default 'pending',
  generation bigint not null,
  generation_id uuid,
  turn bigint not null,
  input jsonb not null,
  -- Where the engine stands: the step begun last, what the steps found, whether it is taking back, and why.
  step integer not null default -1,
  findings jsonb not null default '{}',
  undoing boolean not null default false,
  failure jsonb,
  result jsonb,
  error text,
  error_code text,
  request_id text,
  idempotency_key text,
  fingerprint bytea,
  deadline_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  settled_at timestamptz
);
create unique index operations_live on operations (desktop_id) where state in ('pending', 'running');
create unique index operations_by_key on operations (desktop_id, idempotency_key) where idempotency_key is not null;
create index operations_by_desktop on operations (desktop_id, id desc);

-- Undos and destroys that could not reach their host: carried out the moment it is back, before anything else.
create table deferred_commands (
  desktop_id uuid not null references desktops,
  host_id uuid not null references hosts,
  command text not null,
  generation bigint not null,
  turn bigint not null,
  operation_id uuid not null,
  created_at timestamptz not null default now(),
  primary key (desktop_id, host_id, command)
);
create index deferred_commands_by_host on deferred_commands (host_id);

create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  actor text not null,
  action text not null,
  subject text not null,
  details jsonb not null default '{}'
);
