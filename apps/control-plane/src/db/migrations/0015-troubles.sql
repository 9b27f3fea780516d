-- The last trouble of each kind that a host has told of a desktop. Hosts repeat them: each becomes one event.
-- serves from 0.1.0
create table desktop_troubles (
  desktop_id uuid not null,
  type text not null,
  host_id uuid not null,
  -- By the host's clock, in Unix milliseconds.
  said_at bigint not null,
  primary key (desktop_id, type)
) with (fillfactor = 70);
