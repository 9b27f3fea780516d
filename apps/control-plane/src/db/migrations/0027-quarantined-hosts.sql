-- A host whose wakes kept failing: until then placement prefers others.
alter table hosts add column quarantined_until timestamptz, add column quarantine_reason text;
