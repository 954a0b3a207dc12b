-- Names of versions, and documents pinned to a restored state.

-- A version with a tag is never collected.
CREATE TABLE tag (
    name        TEXT PRIMARY KEY,
    version     INTEGER NOT NULL REFERENCES version (id),
    created_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A restored document that differs from its file. disk: the digest of the file's content at the
-- restore, or NULL if there was no file. Until the file changes, scans keep the restored document.
CREATE TABLE pin (
    source  INTEGER NOT NULL REFERENCES source (id),
    path    TEXT NOT NULL,
    disk    BLOB,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
