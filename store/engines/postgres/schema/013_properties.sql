-- store/engines/sqlite/schema/013_properties.sql explains the column.
ALTER TABLE document ADD COLUMN properties bytewise NOT NULL DEFAULT '[]';
