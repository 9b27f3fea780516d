-- Registered images. A version never changes: another content is another version.
create table images (
  name text not null,
  version text not null,
  digest text not null,
  source text not null,
  bytes bigint not null,
  prefetch boolean not null default false,
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (name, version)
);
-- Which version a name means.
create table image_names (
  name text primary key,
  version text not null,
  foreign key (name, version) references images (name, version)
);
