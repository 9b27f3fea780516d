-- Execs: what each desktop's guest is asked to start, written before it is. What becomes of one is known to its guest alone.
create table execs (
  id uuid primary key,
  desktop_id uuid not null references desktops (id),
  idempotency_key text,
  fingerprint bytea,
  created_at timestamptz not null default clock_timestamp(),
  -- Its host has said that it was started. From then on it is never sent again.
  started_at timestamptz,
  removed_at timestamptz
);
create unique index execs_by_key on execs (desktop_id, idempotency_key) where idempotency_key is not null;
create index execs_by_age on execs (created_at);
