-- Batches of input that were sent with an Idempotency-Key: written before their first event, so that none is done twice.
create table input_batches (
  desktop_id uuid not null,
  idempotency_key text not null,
  id uuid not null,
  fingerprint bytea not null,
  requested_by text not null,
  -- running, done, failed, interrupted or unknown.
  state text not null,
  -- As the response has it, without a picture and without what was typed. Null while it runs, and where it is unknown.
  result jsonb,
  -- While it runs, its replica renews this. Afterwards it cannot be known any more what was done.
  alive_until timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (desktop_id, idempotency_key)
);
create index input_batches_by_age on input_batches (created_at);

-- Since when a claim is held, whichever release of the service hands it over.
alter table stream_claims add column held_since timestamptz;
create function note_hold() returns trigger language plpgsql as $$
begin
  new.held_since := clock_timestamp();
  return new;
end $$;
create trigger stream_claims_since before update of hold_id, held_until on stream_claims for each row
  when (new.hold_id <> old.hold_id or (old.held_until < clock_timestamp() and new.held_until > old.held_until))
  execute function note_hold();
