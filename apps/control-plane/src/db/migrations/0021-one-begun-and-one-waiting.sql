-- outside a transaction: of a desktop one operation may be in progress, and one may wait behind it
create unique index concurrently operations_begun_and_next on operations (desktop_id, (behind is null)) where state in ('pending', 'running');
