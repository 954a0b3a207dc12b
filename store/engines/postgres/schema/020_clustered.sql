-- match_died indexes only ended matches, as in store/engines/sqlite/schema/020_clustered.sql.
DROP INDEX match_died;
CREATE INDEX match_died ON match (died) WHERE died < 9223372036854775807;
