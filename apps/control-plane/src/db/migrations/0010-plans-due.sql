-- outside a transaction
-- serves from 0.1.0
create index concurrently desktops_due on desktops (due_at) where due_at is not null;
