-- A list skips tombstones without reading them.
create index desktops_listed on desktops (org_id, id desc) where state <> 'destroyed';
create index desktops_by_state on desktops (state, id) where state <> 'destroyed';
