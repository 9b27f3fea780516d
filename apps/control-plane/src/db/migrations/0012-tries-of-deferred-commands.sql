-- How often a deferred command was sent again, and why its host could not carry it out: operators read it.
alter table deferred_commands add column attempts integer not null default 0;
alter table deferred_commands add column last_tried_at timestamptz;
alter table deferred_commands add column last_error text;
