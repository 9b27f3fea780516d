-- Changes of wake locks are events. The leader deletes expired ones within seconds, which says that they have ended.
create index wake_locks_expired on wake_locks (expires_at);
create function log_wake_lock() returns trigger language plpgsql as $$
declare
  lock wake_locks := coalesce(new, old);
  what text := case when tg_op = 'INSERT' then 'taken' when tg_op = 'UPDATE' then 'renewed'
    when old.expires_at <= clock_timestamp() then 'expired' else 'released' end;
begin
  insert into events (org_id, desktop_id, host_id, type, data) select d.org_id, d.id, d.host_id, 'wake_lock.' || what,
      jsonb_build_object('name', lock.name, 'reason', lock.reason, 'expires_at', lock.expires_at)
    from desktops d where d.id = lock.desktop_id;
  return null;
end $$;
create trigger wake_locks_log after insert or update or delete on wake_locks for each row execute function log_wake_lock();
