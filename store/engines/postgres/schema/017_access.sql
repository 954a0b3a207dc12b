-- As store/engines/sqlite/schema/017_access.sql says.
ALTER TABLE source_state ADD COLUMN access bytewise;
