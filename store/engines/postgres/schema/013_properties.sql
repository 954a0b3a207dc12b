-- As store/engines/sqlite/schema/013_properties.sql says.
ALTER TABLE document ADD COLUMN properties bytewise NOT NULL DEFAULT '[]';
