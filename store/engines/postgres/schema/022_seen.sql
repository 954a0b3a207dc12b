-- The status counts few of many items, as in store/engines/sqlite/schema/021_seen.sql.
CREATE INDEX seen_problem ON seen (source, why) WHERE why IS NOT NULL;
CREATE INDEX seen_skipped ON seen (source, skipped) WHERE skipped IS NOT NULL;
