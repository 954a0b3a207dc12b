-- Expired versions, and purged documents.

-- The time at which gc collected the version, in Unix milliseconds. NULL while the version is kept.
-- The row of a collected version stays for the log. Rows in force at no kept version are deleted.
ALTER TABLE version ADD COLUMN collected_ms INTEGER;
CREATE INDEX version_kept ON version (id) WHERE collected_ms IS NULL;

-- The numbers of changes in the version, counted at its commit, because the counted rows may be
-- deleted before the log. A replaced document counts as changed. A passage with another question
-- set does not count.
ALTER TABLE version ADD COLUMN documents_added INTEGER NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN documents_changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN documents_removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN passages_added INTEGER NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN passages_removed INTEGER NOT NULL DEFAULT 0;

UPDATE version SET documents_added = c.n FROM (
    SELECT born AS at, count(*) AS n FROM document AS d
    WHERE NOT EXISTS (SELECT 1 FROM document AS o
                      WHERE o.source = d.source AND o.path = d.path AND o.died = d.born)
    GROUP BY born) AS c WHERE id = c.at;
UPDATE version SET documents_changed = c.n FROM (
    SELECT born AS at, count(*) AS n FROM document AS d
    WHERE EXISTS (SELECT 1 FROM document AS o
                  WHERE o.source = d.source AND o.path = d.path AND o.died = d.born)
    GROUP BY born) AS c WHERE id = c.at;
UPDATE version SET documents_removed = c.n FROM (
    SELECT died AS at, count(*) AS n FROM document AS d
    WHERE NOT EXISTS (SELECT 1 FROM document AS o
                      WHERE o.source = d.source AND o.path = d.path AND o.born = d.died)
    GROUP BY died) AS c WHERE id = c.at;
UPDATE version SET passages_added = c.n FROM (
    SELECT born AS at, count(*) AS n FROM life AS l
    WHERE NOT EXISTS (SELECT 1 FROM life AS o WHERE o.passage = l.passage AND o.died = l.born)
    GROUP BY born) AS c WHERE id = c.at;
UPDATE version SET passages_removed = c.n FROM (
    SELECT died AS at, count(*) AS n FROM life AS l
    WHERE NOT EXISTS (SELECT 1 FROM life AS o WHERE o.passage = l.passage AND o.born = l.died)
    GROUP BY died) AS c WHERE id = c.at;

-- Question sets that no version has used. An interrupted sync generated them, and the next sync can
-- use them. since_ms: the time at which gc first found the set unused, in Unix milliseconds.
CREATE TABLE unused (
    question_set  INTEGER PRIMARY KEY,
    since_ms      INTEGER NOT NULL
) STRICT;

-- Purged items. Scans skip an item while it has a row in this table.
CREATE TABLE excluded (
    source      INTEGER NOT NULL REFERENCES source (id),
    path        TEXT NOT NULL,
    created_ms  INTEGER NOT NULL,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
