-- The status counts few of many items, as in store/engines/sqlite/schema/021_seen.sql. A problem can
-- be too long for an index of PostgreSQL.
CREATE INDEX seen_problem ON seen (source) WHERE why IS NOT NULL;
CREATE INDEX seen_skipped ON seen (source, skipped) WHERE skipped IS NOT NULL;
