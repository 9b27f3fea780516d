-- outside a transaction
-- serves from 0.1.0
create index concurrently desktops_by_label on desktops using gin (labels jsonb_path_ops) where labels <> '{}';
