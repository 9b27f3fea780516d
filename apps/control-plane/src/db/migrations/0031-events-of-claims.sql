-- Changes of claims on screens are events. The end of a hold that expires is no write: the leader notes it.
alter table stream_claims add column expiry_noted timestamptz;
update stream_claims set expiry_noted = held_until where held_until < clock_timestamp();

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
    ) change (type, happened, data) where d.id = new.desktop_id and change.happened;
  return null;
end $$;
create trigger stream_claims_log after update of hold_id, session_id, held_until, expiry_noted on stream_claims for each row
  when (new.hold_id <> old.hold_id or (new.session_id is null) <> (old.session_id is null)
    or new.expiry_noted is distinct from old.expiry_noted
    or (new.held_until > old.held_until and old.expiry_noted = old.held_until)) execute function log_claim();
