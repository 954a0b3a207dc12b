-- The index of ended matches has only those, as in store/engines/sqlite/schema/020_clustered.sql.
DROP INDEX match_died;
CREATE INDEX match_died ON match (died) WHERE died < 9223372036854775807;
