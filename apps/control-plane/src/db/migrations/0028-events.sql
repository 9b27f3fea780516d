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
