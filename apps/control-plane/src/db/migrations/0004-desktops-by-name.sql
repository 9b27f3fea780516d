-- outside a transaction
-- serves from 0.1.0
create unique index concurrently desktops_by_name on desktops (org_id, name) where name is not null and state <> 'destroyed';
