-- When each job of the schedule last ran: operational, not versioned. Times are Unix milliseconds.
-- ran_ms: when the last run ended. succeeded_ms: when the last one that succeeded did, NULL before
-- the first. error: why the last run failed, NULL when it did not.
CREATE TABLE job (
    name          TEXT PRIMARY KEY,
    ran_ms        INTEGER NOT NULL,
    succeeded_ms  INTEGER,
    error         TEXT
) STRICT, WITHOUT ROWID;
