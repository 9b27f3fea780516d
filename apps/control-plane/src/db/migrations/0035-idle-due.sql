-- outside a transaction: the desktops that may fall due for hibernation
create index concurrently desktops_idle_due on desktops (idle_look_at) where state = 'awake' and idle_timeout_secs > 0;
