-- Until when the access token behind a claim is good; null behind an API key, which is good until it is revoked.
alter table stream_claims add column good_until timestamptz;
