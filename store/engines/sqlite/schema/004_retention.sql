-- What expires, and what is left out for good.

-- When gc collected the version (Unix milliseconds); NULL while it is kept. A collected version's row
-- stays for the log, and nothing else of it does: rows that hold at no kept version are deleted.
ALTER TABLE version ADD COLUMN collected_ms INTEGER;
CREATE INDEX version_kept ON version (id) WHERE collected_ms IS NULL;

-- What the version changed, counted when it was committed: the log outlives the rows it counts.
-- A document that is replaced counts as changed. A passage that gets another question set counts not.
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

-- Question sets that no version ever held: a sync that was cut short paid for them, and the next one
-- finds them. since_ms: when gc first saw the set so.
CREATE TABLE unused (
    question_set  INTEGER PRIMARY KEY,
    since_ms      INTEGER NOT NULL
) STRICT;

-- Items that were purged: while a row is here, scans pass the item over.
CREATE TABLE excluded (
    source      INTEGER NOT NULL REFERENCES source (id),
    path        TEXT NOT NULL,
    created_ms  INTEGER NOT NULL,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
