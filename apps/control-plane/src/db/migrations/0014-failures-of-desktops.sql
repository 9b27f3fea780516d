-- Why a desktop is failed, as a code of the table of refusals; null in every other state.
alter table desktops add column failure_code text;
