-- To whom an uploaded file belongs, if its caller has said so.
alter table uploads add column owner text;
