-- Before an operation is forgotten, the database looks for intervals that name it: without these, in the whole ledger.
create index usage_intervals_opened_by on usage_intervals (opened_by);
create index usage_intervals_closed_by on usage_intervals (closed_by);
