-- Desktops hibernate by themselves: when each was last used, what holds it awake, and since when that counts.
alter table desktops
  -- The classes of activity that count; null: the default.
  add column idle_policy text[],
  -- The latest change of its timeout or policy.
  add column idle_changed_at timestamptz,
  -- Before this it cannot fall due. In the past for every desktop that wakes, so that each is looked at soon.
  add column idle_look_at timestamptz not null default now();
-- No idle time before this counts: the migration, and later the latest moment at which it was switched off.
alter table installation add column idle_from timestamptz not null default now();

-- The latest activity of each class. Hosts' reports are stored now and then: the replicas have them in memory.
create table desktop_activity (
  desktop_id uuid not null,
  class text not null,
  at timestamptz not null,
  primary key (desktop_id, class)
) with (fillfactor = 70);

create table wake_locks (
  desktop_id uuid not null,
  name text not null,
  reason text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (desktop_id, name)
);
