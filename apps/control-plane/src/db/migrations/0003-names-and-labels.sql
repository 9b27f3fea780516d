-- Names and labels of desktops. A name is unique among the desktops of an organisation that are not destroyed.
-- serves from 0.1.0
alter table desktops
  add column name text collate "C",
  add column labels jsonb not null default '{}';
