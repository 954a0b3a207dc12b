-- store/engines/sqlite/schema/019_probe.sql explains the column.
ALTER TABLE recipe ADD COLUMN probe bytea;
