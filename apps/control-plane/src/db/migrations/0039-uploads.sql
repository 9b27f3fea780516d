-- Uploads that go on after an interruption. What has come lies in the guest: its file has a name made from the upload's id.
create table uploads (
  id uuid primary key,
  org_id uuid not null references organisations (id),
  desktop_id uuid not null references desktops (id),
  path text not null,
  -- Null: as PUT has it.
  mode integer,
  -- Bytes of the whole file; null while they are not known.
  length bigint,
  -- Placing: the guest was, or is to be, told to move the file into place, and its answer is not known.
  state text not null default 'open' check (state in ('open', 'placing', 'complete')),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index uploads_by_desktop on uploads (desktop_id);
create index uploads_by_end on uploads (expires_at);
