-- skipped: what a reader deliberately left out of the item, as a JSON object of counts by kind.
-- NULL: the item has not been read since this column was added.
ALTER TABLE seen ADD COLUMN skipped TEXT;
-- left_out: the files that the last complete listing skipped because no pattern includes their
-- type, as a JSON object of counts by suffix.
ALTER TABLE source_state ADD COLUMN left_out TEXT;
