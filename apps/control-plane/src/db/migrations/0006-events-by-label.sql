-- An event keeps the labels that its desktop had then, for those who select by labels.
-- serves from 0.1.0
alter table events add column labels jsonb;

create function note_labels() returns trigger language plpgsql as $$
begin
  select nullif(d.labels, '{}') into new.labels from desktops d where d.id = new.desktop_id;
  return new;
end $$;
create trigger events_labels before insert on events for each row when (new.desktop_id is not null)
  execute function note_labels();
