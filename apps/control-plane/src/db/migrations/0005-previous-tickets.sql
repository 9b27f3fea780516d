-- What the last socket was opened with: it opens again until the page has said that it has its ticket, so that an answer
-- that is lost on its way costs nobody the claim.
alter table stream_claims add column previous_hash bytea;
