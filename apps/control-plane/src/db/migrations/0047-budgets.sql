-- What a customer's cheap requests can write in a loop is bounded for each organisation: events of wake locks, claims and keys
-- here, deliveries to webhooks by the leader. What is above a budget is counted, and one event says how many were left out.
create table event_budgets (
  org_id uuid primary key references organisations (id),
  tokens float8 not null,
  counted_at timestamptz not null default clock_timestamp(),
  is_over boolean not null default false,
  -- Since the last event that said so.
  left_out bigint not null default 0,
  left_out_since timestamptz
);

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

-- Takes one of the organisation's events: 200 at once, one more each second. Events of operators are not counted.
create function may_log_event(org uuid) returns boolean language plpgsql as $$
declare
  over boolean;
begin
  if org is null then
    return true;
  end if;
  insert into event_budgets as b (org_id, tokens) values (org, 199)
  on conflict (org_id) do update set
    (tokens, is_over, left_out, left_out_since, counted_at) = (
      select case when now.tokens < 1 then now.tokens else now.tokens - 1 end, now.tokens < 1,
        b.left_out + (now.tokens < 1)::int, case when now.tokens < 1 then coalesce(b.left_out_since, now.at)
          else b.left_out_since end, now.at
      from (select least(200, b.tokens + greatest(0, extract(epoch from clock_timestamp() - b.counted_at))) as tokens,
        clock_timestamp() as at) now)
  returning is_over into over;
  return not over;
end $$;

create or replace function log_wake_lock() returns trigger language plpgsql as $$
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

create or replace function log_claim() returns trigger language plpgsql as $$
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

create or replace function log_key() returns trigger language plpgsql as $$
begin
  if may_log_event(new.org_id) then
    insert into events (org_id, type, data) values (new.org_id, case tg_op when 'INSERT' then 'key.created' else 'key.revoked' end,
      jsonb_build_object('key_id', new.id, 'name', new.name));
  end if;
  return null;
end $$;
