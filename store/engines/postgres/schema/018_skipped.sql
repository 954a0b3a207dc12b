-- store/engines/sqlite/schema/018_skipped.sql explains the columns.
ALTER TABLE seen ADD COLUMN skipped bytewise;
ALTER TABLE source_state ADD COLUMN left_out bytewise;
