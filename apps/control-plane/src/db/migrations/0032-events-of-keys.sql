-- The creation and the revocation of a key are events: for its organisation, or for operators.
create function log_key() returns trigger language plpgsql as $$
begin
  insert into events (org_id, type, data) values (new.org_id, case tg_op when 'INSERT' then 'key.created' else 'key.revoked' end,
    jsonb_build_object('key_id', new.id, 'name', new.name));
  return null;
end $$;
create trigger keys_log_insert after insert on keys for each row execute function log_key();
create trigger keys_log_update after update of revoked_at on keys for each row
  when (old.revoked_at is null and new.revoked_at is not null) execute function log_key();
