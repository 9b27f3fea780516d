-- The selector of the desktops whose events a webhook gets. Null: those of all.
-- serves from 0.1.0
alter table webhooks add column selector text;
