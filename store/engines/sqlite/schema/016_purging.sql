-- Unfinished purges. The next start continues them.
-- path: the document, or '' for all documents that the source ever had.
CREATE TABLE purging (
    source  INTEGER NOT NULL REFERENCES source (id),
    path    TEXT NOT NULL,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
