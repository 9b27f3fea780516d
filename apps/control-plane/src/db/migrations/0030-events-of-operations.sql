-- Each state of an operation is an event. What a release before stored as `error` may name a host, so it is left out.
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
