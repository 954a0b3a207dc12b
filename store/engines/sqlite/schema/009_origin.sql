-- Where documents come from, and what cannot be read.

-- What the source says of the revision, for people: a JSON object with some of author, date, commit,
-- url and message_id. Of several origins that gave the same content, the one first seen.
ALTER TABLE document ADD COLUMN origin TEXT NOT NULL DEFAULT '{}';

-- Contents at which a reader crashed, or that it was stopped at: operational, not versioned.
-- content: blake2b-128 of media type and bytes. rules: the program and how it reads; others try again.
CREATE TABLE quarantine (
    content   BLOB PRIMARY KEY,
    rules     TEXT NOT NULL,
    why       TEXT NOT NULL,
    since_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
