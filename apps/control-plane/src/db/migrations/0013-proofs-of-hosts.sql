-- Since when a host signs challenges: from then on no token lets it in.
alter table hosts add column challenged_at timestamptz;
-- For agents of the release before, which show a token that their own clock dates. How far the clock of such a host is
-- ahead of ours, in seconds. Null until one of its tokens was taken: only of a host that enrolled before this migration.
alter table hosts add column token_skew_secs integer default 0;
update hosts set token_skew_secs = null;
alter table hosts add column token_used_at timestamptz;
-- Each token opens one link, at one replica.
create table host_tokens_used (
  host_id uuid not null references hosts,
  token_id uuid not null,
  used_at timestamptz not null default now(),
  primary key (host_id, token_id)
);
create index host_tokens_used_at on host_tokens_used (used_at);
