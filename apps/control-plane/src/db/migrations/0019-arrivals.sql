-- What a desktop that is moving holds on the host that it moves to. What it holds on the host that it leaves stays in
-- `reservations` until the move is decided.
create table arrivals (
  desktop_id uuid primary key,
  operation_id uuid not null,
  host_id uuid not null references hosts,
  vcpus integer not null,
  memory_mib integer not null,
  disk_gib integer not null
);
create index arrivals_by_host on arrivals (host_id);

-- Everything that is held on a host.
create view held as
  select desktop_id, host_id, vcpus, memory_mib, disk_gib from reservations
  union all
  select desktop_id, host_id, vcpus, memory_mib, disk_gib from arrivals;
