-- URLs that are handed on: each opens one file of a desktop's guest, with no other credential than the token in it.
create table file_urls (
  id uuid primary key,
  org_id uuid not null references organisations (id),
  desktop_id uuid not null references desktops (id),
  path text not null,
  method text not null check (method in ('GET', 'PUT')),
  -- Of the file. Null: any.
  max_bytes bigint,
  once boolean not null,
  -- SHA-256 of the token, which is stored nowhere.
  hash bytea not null,
  made_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  revoked_at timestamptz,
  -- Counted before the first byte is sent or taken.
  uses integer not null default 0,
  last_used_at timestamptz,
  check (not once or uses <= 1)
);
create index file_urls_by_desktop on file_urls (desktop_id, created_at);
create index file_urls_by_end on file_urls (expires_at);
