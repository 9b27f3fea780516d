-- When a later generation of the desktop was accepted: by this alone they are forgotten. Null is a desktop's latest, of
-- which there is one for each tombstone, too; no index holds those.
alter table generations add column superseded_at timestamptz;
-- What is kept of a few months, once; wakes wait for it.
set local statement_timeout = 0;
update generations g set superseded_at = coalesce(g.ended_at, now())
  from desktops d where d.id = g.desktop_id and g.id is distinct from d.current_generation_id;
create index generations_superseded on generations (superseded_at) where superseded_at is not null;
drop index generations_ended;
