-- Since when a host takes no new desktops, and the drain that empties it.
alter table hosts add column cordoned_at timestamptz, add column drain_id uuid;
