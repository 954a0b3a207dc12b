-- The same index as in 022_seen.sql. An earlier version of that file also indexed `why`.
DROP INDEX seen_problem;
CREATE INDEX seen_problem ON seen (source) WHERE why IS NOT NULL;
