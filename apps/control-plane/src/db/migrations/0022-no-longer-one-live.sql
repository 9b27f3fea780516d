-- outside a transaction: `operations_begun_and_next` says it since requests wait behind moves
drop index concurrently if exists operations_live;
