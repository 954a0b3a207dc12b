-- As in 022_seen.sql, which indexed the problems themselves before.
DROP INDEX seen_problem;
CREATE INDEX seen_problem ON seen (source) WHERE why IS NOT NULL;
