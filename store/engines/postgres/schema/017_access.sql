-- store/engines/sqlite/schema/017_access.sql explains the column.
ALTER TABLE source_state ADD COLUMN access bytewise;
