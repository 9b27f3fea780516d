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
