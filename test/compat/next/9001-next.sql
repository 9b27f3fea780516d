-- A table and a column that only the next release knows.
-- serves from 0.2.0
create table next_things (id bigint generated always as identity primary key, made_at timestamptz not null default now());
alter table replicas add column motto text;
