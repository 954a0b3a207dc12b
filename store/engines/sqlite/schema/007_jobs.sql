-- The last run of each scheduled job. Operational, not versioned. Times are in Unix milliseconds.
-- ran_ms: the end of the last run. succeeded_ms: the end of the last successful run, or NULL before
-- the first. error: why the last run failed, or NULL if it succeeded.
CREATE TABLE job (
    name          TEXT PRIMARY KEY,
    ran_ms        INTEGER NOT NULL,
    succeeded_ms  INTEGER,
    error         TEXT
) STRICT, WITHOUT ROWID;
