-- Changes of hosts are events for operators. Silence is no write: the leader notes it.
alter table hosts add column unreachable_at timestamptz;
update hosts set unreachable_at = now() where last_heartbeat_at < now() - interval '15 seconds';

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
