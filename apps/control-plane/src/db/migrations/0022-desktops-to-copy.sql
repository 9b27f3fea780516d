-- outside a transaction
-- serves from 0.1.0
create index concurrently desktops_to_copy on desktops (coalesce(copy_after, updated_at))
  where state in ('hibernated', 'stopped') and copied_turn is distinct from turn;
