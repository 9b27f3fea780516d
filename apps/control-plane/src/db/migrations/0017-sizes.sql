-- The size that a desktop gets at its next boot.
-- serves from 0.1.0
alter table desktops
  add column next_tier text,
  add column next_vcpus integer,
  add column next_memory_mib integer,
  add column next_disk_gib integer;
