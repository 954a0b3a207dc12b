-- Where documents come from, and content that cannot be read.

-- What the source says about the revision, for people: a JSON object that may have author, date,
-- commit, url and message_id. If several origins have the same content, the first one found is
-- kept.
ALTER TABLE document ADD COLUMN origin TEXT NOT NULL DEFAULT '{}';

-- Content on which a reader crashed or was stopped. Operational, not versioned. content: the
-- blake2b-128 digest of the media type and the bytes. rules: the version of the program and its
-- reading rules. Under other rules, the content is tried again.
CREATE TABLE quarantine (
    content   BLOB PRIMARY KEY,
    rules     TEXT NOT NULL,
    why       TEXT NOT NULL,
    since_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
