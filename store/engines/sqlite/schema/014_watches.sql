-- Watched questions. Operational, not versioned. The rows contain no text of documents, so a purge
-- need not change them: passages are named by id, and answers by digest. Times are in Unix
-- milliseconds.
-- act: what to do after a change, as JSON: {"exec": [program, argument ...]} or {"webhook": url}.
-- If it is NULL, a change is only recorded. version: the newest version for which `state` was
-- recorded.
-- state: JSON with `answer` (the answer's digest, or null) and `passages` (the ids of the first
-- passages, sorted).
CREATE TABLE watch (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    question    TEXT NOT NULL,
    act         TEXT,
    created_ms  INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT;

-- A change of a watched question, recorded once, in the transaction that changes watch.state.
-- old, new: the compared versions. before, after: the states at these versions. delivered_ms: the
-- time at which `act` succeeded, or NULL before that. error: why `act` failed.
CREATE TABLE telling (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    watch         INTEGER NOT NULL REFERENCES watch (id) ON DELETE CASCADE,
    old           INTEGER NOT NULL,
    new           INTEGER NOT NULL,
    told_ms       INTEGER NOT NULL,
    before        TEXT NOT NULL,
    after         TEXT NOT NULL,
    delivered_ms  INTEGER,
    error         TEXT
) STRICT;
CREATE INDEX telling_watch ON telling (watch, id);
