-- How many desktops an organisation may have; null is what the control plane's settings say.
alter table organisations add column max_desktops integer check (max_desktops >= 0);
