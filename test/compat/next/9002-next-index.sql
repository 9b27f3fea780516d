-- outside a transaction
-- serves from 0.2.0
create index concurrently replicas_next on replicas (motto);
