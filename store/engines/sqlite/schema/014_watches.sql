-- Watched questions: operational, not versioned. No text of a document is in them, so a purge has
-- nothing to remove here: passages are named by id, an answer by its digest. Times are Unix
-- milliseconds.
-- act: what to do at a change, JSON: {"exec": [program, argument ...]} or {"webhook": url}; NULL to
-- do nothing but record it. version: the newest for which `state` was recorded. state: JSON with
-- answer (its digest, null without an answer) and passages (the first ones, by rising id).
CREATE TABLE watch (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    question    TEXT NOT NULL,
    act         TEXT,
    created_ms  INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT;

-- A change of a watched question, recorded once, in the transaction that changes watch.state.
-- old, new: the versions that were compared. before, after: the states at these. delivered_ms: when
-- `act` was done, NULL while it is not; error: why it failed.
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
