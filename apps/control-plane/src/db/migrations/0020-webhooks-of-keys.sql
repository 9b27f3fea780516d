-- The types of events of a webhook with a selector. Its `types` are empty, so that release 0.1.0, which knows no selectors, sends it
-- nothing rather than everything.
-- serves from 0.1.0
alter table webhooks add column selected_types text[];
update webhooks set selected_types = types, types = '{}' where selector is not null;
