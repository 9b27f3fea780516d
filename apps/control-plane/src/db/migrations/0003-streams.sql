-- Who may see or control a desktop's screen. One row per desktop and claim; a hold lasts from a holder's first request
-- until another takes it. All replicas agree because they all ask here.
create table stream_claims (
  desktop_id uuid not null references desktops,
  claim text not null check (claim in ('view', 'control')),
  -- A new one whenever the claim changes hands: what was given out under an older one opens nothing any more.
  hold_id uuid not null,
  holder text not null,
  generation bigint not null,
  held_until timestamptz not null,
  -- The socket that is open; another one in its place ends it, wherever it is open.
  session_id uuid,
  -- What the page of the last socket comes back by.
  ticket_hash bytea,
  -- A page whose desktop fell asleep may come back until then, unless another took the claim.
  waits_until timestamptz,
  primary key (desktop_id, claim)
);
create index stream_claims_by_session on stream_claims (session_id) where session_id is not null;

-- URLs that were not opened yet; a token is kept as its SHA-256 only.
create table stream_tokens (
  hash bytea primary key,
  desktop_id uuid not null references desktops,
  claim text not null,
  hold_id uuid not null,
  generation bigint not null,
  expires_at timestamptz not null
);
create index stream_tokens_by_expiry on stream_tokens (expires_at);
