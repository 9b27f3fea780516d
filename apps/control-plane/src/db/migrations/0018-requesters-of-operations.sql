-- Who asked for an operation: a caller, an operator, a drain. A request that is accepted during a move waits behind it.
alter table operations add column requested_by text not null default 'caller', add column behind uuid;
