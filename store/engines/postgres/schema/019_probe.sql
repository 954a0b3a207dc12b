-- As store/engines/sqlite/schema/019_probe.sql says.
ALTER TABLE recipe ADD COLUMN probe bytea;
