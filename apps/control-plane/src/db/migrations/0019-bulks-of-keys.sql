-- What the credential that asked for a bulk reaches: a selector, or one desktop. Null: all.
-- serves from 0.1.0
alter table bulks
  add column within text,
  add column within_desktop uuid;
