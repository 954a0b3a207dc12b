-- Names for versions, and documents held at a restored state.

-- A tag keeps its version from being collected.
CREATE TABLE tag (
    name        TEXT PRIMARY KEY,
    version     INTEGER NOT NULL REFERENCES version (id),
    created_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A document that a restore set to another state than its file's. While the file's content is still
-- `disk` (NULL: while there is no file), scans leave the document as it was restored.
CREATE TABLE pin (
    source  INTEGER NOT NULL REFERENCES source (id),
    path    TEXT NOT NULL,
    disk    BLOB,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
