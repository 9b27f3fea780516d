-- What a replica can continue as a leader. One of an earlier release announces nothing.
alter table replicas add column knows text[] not null default '{}';
