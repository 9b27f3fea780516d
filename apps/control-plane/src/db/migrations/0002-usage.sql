-- The ledger of what desktops have used. Overlap is impossible by constraint; an open interval has no upper bound.
create table usage_intervals (
  id bigint generated always as identity primary key,
  desktop_id uuid not null references desktops,
  org_id uuid not null references organisations,
  tier text not null,
  billing_mode text not null,
  kind text not null check (kind in ('awake', 'hibernated')),
  generation bigint not null,
  host_id uuid references hosts,
  -- Null where no operation did it: a host's inventory or report told the change.
  opened_by uuid references operations,
  closed_by uuid references operations,
  period tstzrange not null,
  -- The host's last proof that the desktop ran; what is awake counts up to here and no further.
  alive_until timestamptz not null,
  exclude using gist (desktop_id with =, period with &&)
) with (fillfactor = 70);
-- Every heartbeat renews alive_until, which no index holds, in the room the fill factor leaves on each page.
create index usage_intervals_by_org on usage_intervals using gist (org_id, period);
create index usage_intervals_awake on usage_intervals (host_id) where kind = 'awake' and upper_inf(period);

-- What was up or asleep before there was a ledger counts from now on.
insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, host_id, period, alive_until)
select id, org_id, tier, billing_mode, case state when 'hibernated' then 'hibernated' else 'awake' end, generation,
  host_id, tstzrange(now(), null), now()
from desktops where state in ('awake', 'hibernating', 'hibernated');
