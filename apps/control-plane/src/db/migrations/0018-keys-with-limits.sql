-- What a key may do, and which desktops exist for it. Null: everything.
-- serves from 0.1.0
alter table keys
  add column can text[],
  add column selector text,
  add column desktop_id uuid,
  add column made_by text;
