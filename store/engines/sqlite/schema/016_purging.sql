-- Purges that were asked for and have not come to their end. A start goes on with them.
-- path: the document; '' for all documents that the source ever had.
CREATE TABLE purging (
    source  INTEGER NOT NULL REFERENCES source (id),
    path    TEXT NOT NULL,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
