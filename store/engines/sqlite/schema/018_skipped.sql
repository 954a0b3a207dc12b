-- skipped: what a reader left out of the item on purpose, as a JSON object of counts by kind; NULL:
-- not read since this column exists.
ALTER TABLE seen ADD COLUMN skipped TEXT;
-- left_out: the files that the last complete listing passed over because no pattern includes their
-- type, as a JSON object of counts by suffix.
ALTER TABLE source_state ADD COLUMN left_out TEXT;
