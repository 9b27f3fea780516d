-- Since when a host has said without a break that it ails: what has only begun may pass by itself.
alter table hosts add column ailing_since timestamptz;
