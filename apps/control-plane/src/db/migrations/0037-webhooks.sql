-- Webhooks, and the deliveries of events to them. Their queue has a schema of its own, which its library makes.
create table webhooks (
  id uuid primary key,
  org_id uuid not null references organisations (id),
  url text not null,
  -- Null: all.
  types text[],
  signature text not null check (signature in ('v1', 'v1a')),
  -- The newest first: {key, until}. They have to be readable, to sign. Empty once it is deleted.
  keys jsonb not null,
  -- Only events above this number are sent.
  after_seq bigint not null,
  -- The number of its last delivery.
  last_sequence bigint not null default 0,
  enabled boolean not null default true,
  disabled_reason text,
  disabled_at timestamptz,
  failing_since timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz
);
create index webhooks_by_org on webhooks (org_id, id) where deleted_at is null;

create table webhook_deliveries (
  id uuid primary key,
  webhook_id uuid not null references webhooks (id),
  event_id text not null,
  event_at timestamptz not null,
  type text not null,
  -- Null: a test.
  sequence bigint,
  -- What is sent, so that each attempt sends the same bytes, for as long as the delivery is kept.
  body text not null,
  state text not null default 'pending' check (state in ('pending', 'succeeded', 'failed')),
  -- When it became due first, and attempts since then.
  due_since timestamptz not null default clock_timestamp(),
  tries integer not null default 0,
  -- The last ones, oldest first: {at, status, ms, error}.
  attempts jsonb not null default '[]',
  next_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  settled_at timestamptz,
  -- An event is not queued twice.
  unique (webhook_id, sequence)
);
create index webhook_deliveries_due on webhook_deliveries (webhook_id, next_at) where state = 'pending';
create index webhook_deliveries_listed on webhook_deliveries (webhook_id, id);
create index webhook_deliveries_by_time on webhook_deliveries (webhook_id, event_at);
create index webhook_deliveries_old on webhook_deliveries (created_at);

-- Up to which event of the log deliveries were made.
create table webhook_position (
  only_one boolean primary key default true check (only_one),
  seq bigint not null default 0
);
insert into webhook_position default values;
