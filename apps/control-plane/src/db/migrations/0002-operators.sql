-- What operators do by a command: their own keys, the suspension of an organisation, and the audit log by actor and action.
-- serves from 0.1.0

-- An operator's key may read metrics and nothing else, and may end by itself.
alter table keys
  add column role text not null default 'operator' check (role in ('operator', 'metrics')),
  add column expires_at timestamptz;

-- Since when nothing of the organisation wakes.
alter table organisations add column suspended_at timestamptz;

create index audit_log_actor on audit_log (actor, id desc);
create index audit_log_action on audit_log (action, id desc);
