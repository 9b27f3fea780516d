-- Entries of the audit log that customers' requests write have a budget, like events. So budgets have the name of their log.
alter table event_budgets rename to log_budgets;
alter table log_budgets add column log text not null default 'events' check (log in ('events', 'audit'));
alter table log_budgets alter column log drop default;
alter table log_budgets drop constraint event_budgets_pkey;
alter table log_budgets add primary key (org_id, log);

-- Takes one of the organisation's entries in that log. Those of operators are not counted.
create function may_log(org uuid, which text, at_once float8, per_second float8) returns boolean language plpgsql as $$
declare
  over boolean;
begin
  if org is null then
    return true;
  end if;
  insert into log_budgets as b (org_id, log, tokens) values (org, which, at_once - 1)
  on conflict (org_id, log) do update set
    (tokens, is_over, left_out, left_out_since, counted_at) = (
      select case when now.tokens < 1 then now.tokens else now.tokens - 1 end, now.tokens < 1,
        b.left_out + (now.tokens < 1)::int, case when now.tokens < 1 then coalesce(b.left_out_since, now.at)
          else b.left_out_since end, now.at
      from (select least(at_once, b.tokens + greatest(0, extract(epoch from clock_timestamp() - b.counted_at)) * per_second)
        as tokens, clock_timestamp() as at) now)
  returning is_over into over;
  return not over;
end $$;

create or replace function may_log_event(org uuid) returns boolean language sql as $$
  select may_log(org, 'events', 200, 1)
$$;

-- How many were left out of that log more than half a minute ago; they are not counted again.
create function take_left_out(which text) returns table (org_id uuid, count bigint, since timestamptz) language sql as $$
  with over as (
    select b.org_id, b.left_out, b.left_out_since from log_budgets b
    where b.log = which and b.left_out > 0 and b.left_out_since < clock_timestamp() - interval '30 seconds'
    order by b.org_id for update),
  cleared as (
    update log_budgets b set left_out = 0, left_out_since = null from over where b.org_id = over.org_id and b.log = which)
  select * from over
$$;
