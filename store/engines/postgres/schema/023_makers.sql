-- store/engines/sqlite/schema/022_makers.sql explains the columns.
ALTER TABLE watch ADD COLUMN maker bytewise;
ALTER TABLE watch ADD COLUMN login bytewise;
ALTER TABLE watch ADD COLUMN rights bytewise;
ALTER TABLE telling ADD COLUMN number bigint NOT NULL DEFAULT 0;
UPDATE telling SET number = id;
