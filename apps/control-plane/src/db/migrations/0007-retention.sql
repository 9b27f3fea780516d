-- Settled operations that were not looked at by the pruning yet: it empties the input of those that it keeps.
create index operations_unpruned on operations (settled_at) where settled_at is not null and input <> '{}';
create index generations_ended on generations (ended_at) where ended_at is not null;
