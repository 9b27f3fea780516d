-- The whole schema of version 0.1.0. An applied file is never changed: what changes the schema is a new file.

-- The base of all others: installation, leadership, principals, hosts, desktops, operations.
-- serves from 0.1.0
create extension if not exists btree_gist;

-- Is in the name of every domain, manifest, pool and network on the hosts, so that two installations never touch each other's.
create table installation (
  only_one boolean primary key default true check (only_one),
  id uuid not null default gen_random_uuid(),
  created_at timestamptz not null default now(),
  -- No idle time before this counts: the latest moment at which hibernation of idle desktops was switched off.
  idle_from timestamptz not null default now()
);
insert into installation default values;

-- Safety is the epoch alone: every mutating transaction locks this row for key share and compares it.
create table leadership (
  only_one boolean primary key default true check (only_one),
  epoch bigint not null default 0,
  replica_id uuid,
  expires_at timestamptz not null default '-infinity',
  -- The oldest release that may lead with this schema, such as {0,1,0}. Raised by the migrations that are marked with it.
  serves_from integer[] not null default '{0,0,0}'
);
insert into leadership default values;

create table replicas (
  id uuid primary key,
  url text not null,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  version text not null,
  commit text not null
);

create table organisations (
  id uuid primary key,
  name text not null,
  created_at timestamptz not null default now(),
  -- How many desktops an organisation may have; null is the number in the control plane's settings.
  max_desktops integer check (max_desktops >= 0)
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
  processors double precision not null default 0,
  memory_mib integer not null default 0,
  disk_gib integer not null default 0,
  images text[] not null default '{}',
  ailment text,
  last_heartbeat_at timestamptz,
  lost_at timestamptz,
  removed_at timestamptz,
  created_at timestamptz not null default now(),
  -- Since when a host has reported its problem without a break: one that has only begun may pass by itself.
  ailing_since timestamptz,
  -- One host's word raises the epoch once. After that it gets no commands until an operator trusts it again.
  epoch_believed_at timestamptz,
  -- While it gets none: since when, and which epoch it reports to have obeyed.
  withheld_at timestamptz,
  withheld_epoch bigint,
  -- Since when a host takes no new desktops, and the drain that empties it.
  cordoned_at timestamptz,
  drain_id uuid,
  -- A host whose wakes kept failing: until then placement prefers others.
  quarantined_until timestamptz,
  quarantine_reason text,
  -- Changes of hosts are events for operators. Silence is no write: the leader notes it.
  unreachable_at timestamptz
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
  updated_at timestamptz not null default clock_timestamp(),
  -- Why a desktop is failed, as a code of the table of refusals; null in every other state.
  failure_code text,
  -- The registered image that the desktop's disk was made from, as name@version; null if nobody has registered it.
  made_from text,
  -- Desktops hibernate by themselves: when each was last used, what holds it awake, and since when that counts.
  -- The classes of activity that count; null: the default.
  idle_policy text[],
  -- The latest change of its timeout or policy.
  idle_changed_at timestamptz,
  -- Before this it cannot fall due. In the past for every desktop that wakes, so that each is looked at soon.
  idle_look_at timestamptz not null default now()
);
create unique index desktops_by_key on desktops (org_id, idempotency_key) where idempotency_key is not null;
create index desktops_by_org on desktops (org_id, id desc);
create index desktops_by_host on desktops (host_id) where state <> 'destroyed';
-- A list skips tombstones without reading them.
create index desktops_listed on desktops (org_id, id desc) where state <> 'destroyed';
create index desktops_by_state on desktops (state, id) where state <> 'destroyed';
-- The desktops that may fall due for hibernation.
create index desktops_idle_due on desktops (idle_look_at) where state = 'awake' and idle_timeout_secs > 0;

create table generations (
  id uuid primary key,
  desktop_id uuid not null references desktops,
  generation bigint not null,
  host_id uuid references hosts,
  started_at timestamptz,
  ended_at timestamptz,
  end_reason text,
  -- When a later generation of the desktop was accepted: by this alone they are forgotten. Null is a desktop's latest, of
  -- which there is one for each tombstone, too; no index holds those.
  superseded_at timestamptz,
  unique (desktop_id, generation)
);
create index generations_superseded on generations (superseded_at) where superseded_at is not null;

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
  -- The engine's position: the step begun last, what the steps found, whether it is undoing, and why.
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
  settled_at timestamptz,
  -- Why it failed, for operators: `error` is for its customer.
  cause text,
  -- When each of its steps began.
  timeline jsonb not null default '[]',
  -- Who asked for an operation: a caller, an operator, a drain. A request that is accepted during a move waits behind it.
  requested_by text not null default 'caller',
  behind uuid
);
create unique index operations_by_key on operations (desktop_id, idempotency_key) where idempotency_key is not null;
create index operations_by_desktop on operations (desktop_id, id desc);
-- Settled operations that were not looked at by the pruning yet: it empties the input of those that it keeps.
create index operations_unpruned on operations (settled_at) where settled_at is not null and input <> '{}';
-- A desktop may have one operation in progress, and one that waits behind it.
create unique index operations_begun_and_next on operations (desktop_id, (behind is null)) where state in ('pending', 'running');

-- Undos and destroys that could not reach their host: carried out the moment it is back, before anything else.
create table deferred_commands (
  desktop_id uuid not null references desktops,
  host_id uuid not null references hosts,
  command text not null,
  generation bigint not null,
  turn bigint not null,
  operation_id uuid not null,
  created_at timestamptz not null default now(),
  -- How often a deferred command was sent again, and why its host could not carry it out: operators read it.
  attempts integer not null default 0,
  last_tried_at timestamptz,
  last_error text,
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
-- What is old, without a look at what is not; and what was done to one subject, newest first.
create index audit_log_at on audit_log (at);
create index audit_log_subject on audit_log (subject, id desc);

-- The ledger of what desktops have used. Overlap is impossible by constraint; an open interval has no upper bound.
create table usage_intervals (
  id bigint generated always as identity primary key,
  desktop_id uuid not null references desktops,
  org_id uuid not null references organisations,
  tier text not null,
  billing_mode text not null,
  kind text not null check (kind in ('awake', 'hibernated')),
  generation bigint not null,
  host_id uuid references hosts,
  -- Null if no operation did it: a host's inventory or report showed the change.
  opened_by uuid references operations,
  closed_by uuid references operations,
  period tstzrange not null,
  -- The host's last proof that the desktop ran; what is awake counts up to here and no further.
  alive_until timestamptz not null,
  exclude using gist (desktop_id with =, period with &&)
) with (fillfactor = 70);
-- Every heartbeat renews alive_until, which no index holds, in the space that the fill factor leaves on each page.
create index usage_intervals_by_org on usage_intervals using gist (org_id, period);
create index usage_intervals_awake on usage_intervals (host_id) where kind = 'awake' and upper_inf(period);
-- Before an operation is forgotten, the database looks for intervals that name it: without these, in the whole ledger.
create index usage_intervals_opened_by on usage_intervals (opened_by);
create index usage_intervals_closed_by on usage_intervals (closed_by);

-- Who may see or control a desktop's screen. One row per desktop and claim; a hold lasts from a holder's first request until
-- another takes it. All replicas agree because they all read this table.
create table stream_claims (
  desktop_id uuid not null references desktops,
  claim text not null check (claim in ('view', 'control')),
  -- A new one whenever the claim changes hands: what was given out under an older one opens nothing any more.
  hold_id uuid not null,
  holder text not null,
  generation bigint not null,
  held_until timestamptz not null,
  -- The socket that is open; another one in its place ends it, wherever it is open.
  session_id uuid,
  -- What the page of the last socket comes back by.
  ticket_hash bytea,
  -- A page whose desktop fell asleep may come back until then, unless another took the claim.
  waits_until timestamptz,
  -- What the last socket was opened with: it opens again until the page has confirmed its ticket, so that an answer that is
  -- lost on its way costs nobody the claim.
  previous_hash bytea,
  -- Until when the access token behind a claim is good; null behind an API key, which is good until it is revoked.
  good_until timestamptz,
  -- The end of a hold that expires is no write: the leader notes it.
  expiry_noted timestamptz,
  -- Since when it is held.
  held_since timestamptz,
  primary key (desktop_id, claim)
);
create index stream_claims_by_session on stream_claims (session_id) where session_id is not null;

-- URLs that were not opened yet; a token is kept as its SHA-256 only.
create table stream_tokens (
  hash bytea primary key,
  desktop_id uuid not null references desktops,
  claim text not null,
  hold_id uuid not null,
  generation bigint not null,
  expires_at timestamptz not null
);
create index stream_tokens_by_expiry on stream_tokens (expires_at);

-- What a desktop that is moving holds on the host that it moves to. What it holds on the host that it leaves stays in
-- `reservations` until the move is decided.
create table arrivals (
  desktop_id uuid primary key,
  operation_id uuid not null,
  host_id uuid not null references hosts,
  vcpus integer not null,
  memory_mib integer not null,
  disk_gib integer not null
);
create index arrivals_by_host on arrivals (host_id);

-- Everything that is held on a host.
create view held as
  select desktop_id, host_id, vcpus, memory_mib, disk_gib from reservations
  union all
  select desktop_id, host_id, vcpus, memory_mib, disk_gib from arrivals;

-- Registered images. A version never changes: another content is another version.
create table images (
  name text not null,
  version text not null,
  digest text not null,
  source text not null,
  bytes bigint not null,
  prefetch boolean not null default false,
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (name, version)
);

-- Which version a name means.
create table image_names (
  name text primary key,
  version text not null,
  foreign key (name, version) references images (name, version)
);

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

-- When dormouse-backup last wrote a backup that can be read. No other program writes it.
create table backups (
  only_one boolean primary key default true check (only_one),
  finished_at timestamptz not null,
  bytes bigint not null
);

-- Upgrades of the agents of hosts: one row for each, and one for each host of it.
create table upgrades (
  id uuid primary key,
  state text not null check (state in ('running', 'cancelling', 'upgraded', 'failed', 'cancelled')),
  -- Null: the newest in each host's repository.
  version text,
  batch integer not null,
  timeout_secs integer not null,
  created_at timestamptz not null default now(),
  settled_at timestamptz
);
-- There is one at a time.
create unique index upgrades_live on upgrades ((true)) where settled_at is null;

create table upgrade_hosts (
  upgrade_id uuid not null references upgrades on delete cascade,
  host_id uuid not null references hosts,
  status text not null check (status in ('waiting', 'working', 'upgraded', 'failed', 'skipped')),
  from_version text,
  version text,
  reason text,
  -- Desktops that the host lacked already when its turn came.
  missing_before uuid[] not null,
  began_at timestamptz,
  primary key (upgrade_id, host_id)
);

-- The log of events: each change of a desktop, operation, claim, key or host, written by triggers in the transaction that
-- makes the change. `xid` comes first: a transaction has its id before it draws a number of the sequence, which readers rely on.
create sequence events_seq;

create table events (
  xid xid8 not null default pg_current_xact_id(),
  seq bigint not null default nextval('events_seq'),
  at timestamptz not null default clock_timestamp(),
  -- Null: for operators only.
  org_id uuid,
  desktop_id uuid,
  host_id uuid,
  type text not null,
  data jsonb not null default '{}',
  primary key (seq, at)
) partition by range (at);
create index events_by_org on events (org_id, seq);

-- What has no partition of its day. The leader makes partitions ahead, so that this one stays empty.
create table events_unplaced partition of events default;

do $$
declare day timestamp;
begin
  for day in select generate_series(date_trunc('day', now() at time zone 'UTC'), now() at time zone 'UTC' + interval '2 days',
    interval '1 day')
  loop
    execute format('create table %I partition of events for values from (%L) to (%L)',
      'events_' || to_char(day, 'YYYYMMDD'), day at time zone 'UTC', (day + interval '1 day') at time zone 'UTC');
  end loop;
end $$;

-- How far the log is complete, and how much of its beginning is dropped.
create table event_log (
  only_one boolean primary key default true check (only_one),
  -- Every event up to this number is committed, or will never be.
  settled bigint not null default 0,
  -- Events up to this number may be missing.
  dropped bigint not null default 0
);
insert into event_log default values;

-- What a customer's cheap requests can write in a loop is bounded for each organisation: events and entries of the audit log
-- here, deliveries to webhooks by the leader. What is above a budget is counted, and one event or entry has the number of those
-- left out.
create table log_budgets (
  org_id uuid not null references organisations (id),
  tokens float8 not null,
  counted_at timestamptz not null default clock_timestamp(),
  is_over boolean not null default false,
  -- Since the last event with such a number.
  left_out bigint not null default 0,
  left_out_since timestamptz,
  -- Events, or the audit log.
  log text not null check (log in ('events', 'audit')),
  primary key (org_id, log)
);

-- Takes one of the organisation's entries in that log. Those of operators are not counted.
create function may_log(org uuid, which text, at_once float8, per_second float8) returns boolean language plpgsql as $$
declare
  over boolean;
begin
  if org is null then
    return true;
  end if;
  insert into log_budgets as b (org_id, log, tokens) values (org, which, at_once - 1)
  on conflict (org_id, log) do update set
    (tokens, is_over, left_out, left_out_since, counted_at) = (
      select case when now.tokens < 1 then now.tokens else now.tokens - 1 end, now.tokens < 1,
        b.left_out + (now.tokens < 1)::int, case when now.tokens < 1 then coalesce(b.left_out_since, now.at)
          else b.left_out_since end, now.at
      from (select least(at_once, b.tokens + greatest(0, extract(epoch from clock_timestamp() - b.counted_at)) * per_second)
        as tokens, clock_timestamp() as at) now)
  returning is_over into over;
  return not over;
end $$;

-- Takes one of the organisation's events: 200 at once, one more each second. Events of operators are not counted.
create function may_log_event(org uuid) returns boolean language sql as $$
  select may_log(org, 'events', 200, 1)
$$;

-- How many were left out of that log more than half a minute ago; they are not counted again.
create function take_left_out(which text) returns table (org_id uuid, count bigint, since timestamptz) language sql as $$
  with over as (
    select b.org_id, b.left_out, b.left_out_since from log_budgets b
    where b.log = which and b.left_out > 0 and b.left_out_since < clock_timestamp() - interval '30 seconds'
    order by b.org_id for update),
  cleared as (
    update log_budgets b set left_out = 0, left_out_since = null from over where b.org_id = over.org_id and b.log = which)
  select * from over
$$;

-- Each state of a desktop, and each change of its host, is an event.
create function log_desktop() returns trigger language plpgsql as $$
begin
  if old.state is distinct from new.state then
    insert into events (org_id, desktop_id, host_id, type, data) values (new.org_id, new.id, new.host_id, 'desktop.state',
      jsonb_build_object('state', new.state, 'previous_state', old.state, 'generation', new.generation,
        'host_id', new.host_id, 'failure_code', new.failure_code));
  else
    insert into events (org_id, desktop_id, host_id, type, data) values (new.org_id, new.id, new.host_id, 'desktop.moved',
      jsonb_build_object('state', new.state, 'generation', new.generation, 'host_id', new.host_id,
        'previous_host_id', old.host_id));
  end if;
  return null;
end $$;
create trigger desktops_log_insert after insert on desktops for each row execute function log_desktop();
create trigger desktops_log_update after update of state, host_id on desktops for each row
  when (new.state <> old.state or new.host_id <> old.host_id) execute function log_desktop();

-- Each state of an operation is an event.
create function log_operation() returns trigger language plpgsql as $$
begin
  insert into events (org_id, desktop_id, type, data) values (new.org_id, new.desktop_id, 'operation.' || new.state,
    jsonb_build_object('operation_id', new.id, 'kind', new.kind, 'requested_by', new.requested_by, 'state', new.state,
      'result', new.result, 'error_code', new.error_code,
      'error', case when new.cause is not null or new.error_code = 'superseded' then new.error end));
  return null;
end $$;
create trigger operations_log_insert after insert on operations for each row execute function log_operation();
create trigger operations_log_update after update of state on operations for each row
  when (new.state <> old.state) execute function log_operation();

create function log_claim() returns trigger language plpgsql as $$
declare
  changes_hands boolean := new.hold_id <> old.hold_id;
begin
  insert into events (org_id, desktop_id, host_id, type, data)
    select d.org_id, d.id, d.host_id, change.type, jsonb_build_object('claim', new.claim) || change.data
    from desktops d, (values
      ('claim.taken', changes_hands or (new.held_until > old.held_until and old.expiry_noted = old.held_until),
        jsonb_build_object('taken_over', changes_hands and old.holder <> '' and old.held_until > clock_timestamp())),
      ('claim.connected', old.session_id is null and new.session_id is not null, '{}'),
      ('claim.disconnected', old.session_id is not null and new.session_id is null and not changes_hands, '{}'),
      ('claim.released', new.expiry_noted is distinct from old.expiry_noted, '{}')
    ) change (type, happened, data) where d.id = new.desktop_id and change.happened and may_log_event(d.org_id);
  return null;
end $$;
create trigger stream_claims_log after update of hold_id, session_id, held_until, expiry_noted on stream_claims for each row
  when (new.hold_id <> old.hold_id or (new.session_id is null) <> (old.session_id is null)
    or new.expiry_noted is distinct from old.expiry_noted
    or (new.held_until > old.held_until and old.expiry_noted = old.held_until)) execute function log_claim();

-- The creation and the revocation of a key are events: for its organisation, or for operators.
create function log_key() returns trigger language plpgsql as $$
begin
  if may_log_event(new.org_id) then
    insert into events (org_id, type, data) values (new.org_id, case tg_op when 'INSERT' then 'key.created' else 'key.revoked' end,
      jsonb_build_object('key_id', new.id, 'name', new.name));
  end if;
  return null;
end $$;
create trigger keys_log_insert after insert on keys for each row execute function log_key();
create trigger keys_log_update after update of revoked_at on keys for each row
  when (old.revoked_at is null and new.revoked_at is not null) execute function log_key();

create function log_host() returns trigger language plpgsql as $$
begin
  insert into events (host_id, type, data)
    select new.id, change.type, jsonb_build_object('name', new.name) || change.data
    from (values
      ('host.enrolled', tg_op = 'INSERT', '{}'::jsonb),
      ('host.connected', tg_op = 'UPDATE' and new.last_heartbeat_at is not null
        and (old.last_heartbeat_at is null or old.unreachable_at >= old.last_heartbeat_at)
        and new.last_heartbeat_at is distinct from old.last_heartbeat_at, '{}'),
      ('host.unreachable', new.unreachable_at is distinct from old.unreachable_at, '{}'),
      ('host.unhealthy', old.ailment is null and new.ailment is not null, jsonb_build_object('problem', left(new.ailment, 500))),
      ('host.healthy', old.ailment is not null and new.ailment is null, '{}'),
      ('host.cordoned', old.cordoned_at is null and new.cordoned_at is not null, '{}'),
      ('host.draining', new.drain_id is not null and new.drain_id is distinct from old.drain_id,
        jsonb_build_object('drain_id', new.drain_id)),
      ('host.drain_ended', old.drain_id is not null and new.drain_id is null, jsonb_build_object('drain_id', old.drain_id)),
      ('host.uncordoned', old.cordoned_at is not null and new.cordoned_at is null, '{}'),
      ('host.quarantined', new.quarantined_until > now() and new.quarantined_until is distinct from old.quarantined_until,
        jsonb_build_object('until', new.quarantined_until, 'reason', new.quarantine_reason)),
      ('host.quarantine_ended', old.quarantined_until > now() and new.quarantined_until is null, '{}'),
      ('host.withheld', old.withheld_at is null and new.withheld_at is not null, jsonb_build_object('epoch', new.withheld_epoch)),
      ('host.trusted', old.withheld_at is not null and new.withheld_at is null, '{}'),
      ('host.lost', old.lost_at is null and new.lost_at is not null, '{}'),
      ('host.returned', old.lost_at is not null and new.lost_at is null, '{}'),
      ('host.removed', old.removed_at is null and new.removed_at is not null, '{}')
    ) change (type, happened, data) where change.happened;
  return null;
end $$;
create trigger hosts_log_insert after insert on hosts for each row execute function log_host();
-- A heartbeat that changes nothing else costs one comparison.
create trigger hosts_log_update after update on hosts for each row
  when (old.last_heartbeat_at is null or old.unreachable_at >= old.last_heartbeat_at
    or (old.ailment is null) <> (new.ailment is null)
    or (old.unreachable_at, old.cordoned_at, old.drain_id, old.quarantined_until, old.withheld_at, old.lost_at, old.removed_at)
      is distinct from
      (new.unreachable_at, new.cordoned_at, new.drain_id, new.quarantined_until, new.withheld_at, new.lost_at, new.removed_at))
  execute function log_host();

-- The latest activity of each class. Hosts' reports are stored now and then: the replicas have them in memory.
create table desktop_activity (
  desktop_id uuid not null,
  class text not null,
  at timestamptz not null,
  primary key (desktop_id, class)
) with (fillfactor = 70);

create table wake_locks (
  desktop_id uuid not null,
  name text not null,
  reason text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (desktop_id, name)
);
-- Changes of wake locks are events. The leader deletes expired ones within seconds, and that is the event of their end.
create index wake_locks_expired on wake_locks (expires_at);

create function log_wake_lock() returns trigger language plpgsql as $$
declare
  lock wake_locks := coalesce(new, old);
  what text := case when tg_op = 'INSERT' then 'taken' when tg_op = 'UPDATE' then 'renewed'
    when old.expires_at <= clock_timestamp() then 'expired' else 'released' end;
begin
  insert into events (org_id, desktop_id, host_id, type, data) select d.org_id, d.id, d.host_id, 'wake_lock.' || what,
      jsonb_build_object('name', lock.name, 'reason', lock.reason, 'expires_at', lock.expires_at)
    from desktops d where d.id = lock.desktop_id and may_log_event(d.org_id);
  return null;
end $$;
create trigger wake_locks_log after insert or update or delete on wake_locks for each row execute function log_wake_lock();

-- Webhooks, and the deliveries of events to them.
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

-- Execs: what each desktop's guest is to start, written before the command is sent. Only the guest has what becomes of one.
create table execs (
  id uuid primary key,
  desktop_id uuid not null references desktops (id),
  idempotency_key text,
  fingerprint bytea,
  created_at timestamptz not null default clock_timestamp(),
  -- Its host has confirmed the start. From then on it is never sent again.
  started_at timestamptz,
  removed_at timestamptz
);
create unique index execs_by_key on execs (desktop_id, idempotency_key) where idempotency_key is not null;
create index execs_by_age on execs (created_at);

-- Uploads that go on after an interruption. What has come is in the guest: its file has a name made from the upload's id.
create table uploads (
  id uuid primary key,
  org_id uuid not null references organisations (id),
  desktop_id uuid not null references desktops (id),
  path text not null,
  -- Null: as PUT has it.
  mode integer,
  -- Bytes of the whole file; null while they are not known.
  length bigint,
  -- Placing: the guest was, or is to be, told to move the file into place, and its answer is not known.
  state text not null default 'open' check (state in ('open', 'placing', 'complete')),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  -- The owner of an uploaded file, if its caller has named one.
  owner text
);
create index uploads_by_desktop on uploads (desktop_id);
create index uploads_by_end on uploads (expires_at);

-- Batches of input that were sent with an Idempotency-Key: written before their first event, so that none is done twice.
create table input_batches (
  desktop_id uuid not null,
  idempotency_key text not null,
  id uuid not null,
  fingerprint bytea not null,
  requested_by text not null,
  -- running, done, failed, interrupted or unknown.
  state text not null,
  -- As the response has it, without a picture and without what was typed. Null while it runs, and if it is unknown.
  result jsonb,
  -- While it runs, its replica renews this. Afterwards it cannot be known any more what was done.
  alive_until timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (desktop_id, idempotency_key)
);
create index input_batches_by_age on input_batches (created_at);

create function note_hold() returns trigger language plpgsql as $$
begin
  new.held_since := clock_timestamp();
  return new;
end $$;
create trigger stream_claims_since before update of hold_id, held_until on stream_claims for each row
  when (new.hold_id <> old.hold_id or (old.held_until < clock_timestamp() and new.held_until > old.held_until))
  execute function note_hold();

-- URLs that are handed on: each opens one file of a desktop's guest, with no other credential than the token in it.
create table file_urls (
  id uuid primary key,
  org_id uuid not null references organisations (id),
  desktop_id uuid not null references desktops (id),
  path text not null,
  method text not null check (method in ('GET', 'PUT')),
  -- The largest file. Null: no limit.
  max_bytes bigint,
  once boolean not null,
  -- SHA-256 of the token, which is stored nowhere.
  hash bytea not null,
  made_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  revoked_at timestamptz,
  -- Counted before the first byte is sent or taken.
  uses integer not null default 0,
  last_used_at timestamptz,
  check (not once or uses <= 1)
);
create index file_urls_by_desktop on file_urls (desktop_id, created_at);
create index file_urls_by_end on file_urls (expires_at);

create table delivery_budgets (
  org_id uuid primary key references organisations (id),
  tokens float8 not null,
  counted_at timestamptz not null default clock_timestamp()
);

create table deliveries_left_out (
  webhook_id uuid primary key references webhooks (id) on delete cascade,
  count bigint not null,
  since timestamptz not null default clock_timestamp()
);

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
