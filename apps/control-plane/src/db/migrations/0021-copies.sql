-- serves from 0.1.0
-- Copies of sleeping desktops in vaults, and which of them an organisation wants. A turn that was copied is not copied again.
alter table desktops
  add column copied_turn int,
  add column copy_after timestamptz,
  add column protected_at timestamptz,
  add column protected_kind text check (protected_kind in ('memory', 'disk'));

create table copies (
  id uuid primary key,
  desktop_id uuid not null references desktops (id) on delete cascade,
  org_id uuid not null,
  vault text not null,
  kind text not null check (kind in ('memory', 'disk')),
  generation int not null,
  turn int not null,
  snapshot text not null,
  size_bytes bigint not null,
  added_bytes bigint not null,
  spec jsonb not null,
  made_from text,
  traits jsonb not null,
  handoff text not null,
  taken_at timestamptz not null default clock_timestamp(),
  forgotten_at timestamptz
);
create index copies_of_desktop on copies (desktop_id, taken_at desc);
create index copies_forgotten on copies (vault, forgotten_at) where forgotten_at is not null;

create table copy_policies (
  org_id uuid not null references organisations (id) on delete cascade,
  name text not null,
  selector text,
  copy_when text not null,
  keep jsonb not null,
  recover text not null,
  primary key (org_id, name)
);
