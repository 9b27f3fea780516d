-- What is planned for a desktop: its end, and the times at which it wakes and hibernates.
-- serves from 0.1.0
alter table desktops
  -- When the service destroys it; null for never.
  add column destroy_at timestamptz,
  -- Whether the event before that was written, or is not wanted.
  add column destroy_soon_noted boolean not null default false,
  -- When it was last written.
  add column destroy_soon_at timestamptz,
  -- `wake` and `hibernate`: each a cron expression with its time zone, or one time.
  add column schedule jsonb,
  -- Times of the schedule up to these are done, skipped, or before it was set.
  add column wake_after timestamptz,
  add column hibernate_after timestamptz,
  -- When its schedule last found it awake at the time of a wake: its idle time counts from then on.
  add column schedule_woke_at timestamptz,
  -- When the leader looks at this next; null for never.
  add column due_at timestamptz;
