-- The registered image that the desktop's disk was made from, as name@version; null where nobody has registered it.
alter table desktops add column made_from text;
