-- Indexes for `status`, as in store/engines/sqlite/schema/021_seen.sql. `why` is not in the index,
-- because it can be too long for an index in PostgreSQL.
CREATE INDEX seen_problem ON seen (source) WHERE why IS NOT NULL;
CREATE INDEX seen_skipped ON seen (source, skipped) WHERE skipped IS NOT NULL;
