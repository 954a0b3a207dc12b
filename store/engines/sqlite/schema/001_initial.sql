-- The first schema. docs/reference/database-format.md explains the current schema.
--
-- There are two kinds of rows:
--   content    Immutable rows, addressed by a hash of their content. All versions share them, and
--              they cache everything that was expensive to compute. Tables: passage, question_set,
--              question, passage_text.
--   intervals  Rows that say in which versions content is in force. Tables: document, life,
--              passage_vector_<recipe>, match. A row is in force at the versions born <= v < died.
--              died is 9223372036854775807 while the row is in force at the head.
-- A version is one row in `version`, committed together with its intervals.
--
-- A "content id" is the upper 63 bits of a blake2b-64 digest. So the same content has the same id
-- in every database.

-- The sources of documents. Invariant: a name is never reused for another location.
CREATE TABLE source (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    kind      TEXT NOT NULL,
    location  TEXT NOT NULL
) STRICT;

-- The state of each item at the last scan, used to skip unchanged items. Operational, not
-- versioned.
-- content: the blake2b-128 digest of the bytes last read. NULL if they were never readable.
-- why, hint: the item's current problem. NULL if there is none.
CREATE TABLE seen (
    source    INTEGER NOT NULL REFERENCES source (id),
    path      TEXT NOT NULL,
    revision  TEXT NOT NULL,
    content   BLOB,
    why       TEXT,
    hint      TEXT,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;

-- The state of each source after its last scan. Operational, not versioned. Times are in Unix
-- milliseconds.
-- problem, hint: why the source is paused or incompletely listed. NULL if there is no problem.
CREATE TABLE source_state (
    source        INTEGER PRIMARY KEY REFERENCES source (id),
    scanned_ms    INTEGER,
    problem       TEXT,
    hint          TEXT
) STRICT;

-- Generation settings. name: identifies the question generator, its version and the encoder.
CREATE TABLE recipe (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    encoder     TEXT NOT NULL,
    dimensions  INTEGER NOT NULL
) STRICT;

-- Exact totals since the database was created, such as passages_generated and texts_embedded.
CREATE TABLE counter (
    name   TEXT PRIMARY KEY,
    value  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- CONTENT. id: the content id of (heading path, text). heading: a JSON array, outermost first.
-- words: the number of words in the heading and the text, which BM25 uses as the length.
CREATE TABLE passage (
    id       INTEGER PRIMARY KEY,
    heading  TEXT NOT NULL,
    text     TEXT NOT NULL,
    words    INTEGER NOT NULL
) STRICT;

-- CONTENT. The questions of one passage with one recipe. id: the content id of (passage, recipe
-- name). vectors: an m x d matrix of little-endian int16, row by row. Each row is a unit vector
-- times 4000, rounded (see records.py). Row 0 is the vector of the passage itself.
CREATE TABLE question_set (
    id       INTEGER PRIMARY KEY,
    passage  INTEGER NOT NULL REFERENCES passage (id),
    recipe   INTEGER NOT NULL REFERENCES recipe (id),
    vectors  BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX question_set_of_passage ON question_set (passage, recipe);

-- CONTENT. A question with its keywords and its vector. id: the content id of (set, direction,
-- ordinal). direction: 0 for incoming (the passage answers the question), 1 for outgoing (the
-- passage raises the question). keywords: a sorted JSON array. vector_row: the row of
-- question_set.vectors that has the question's vector.
CREATE TABLE question (
    id            INTEGER PRIMARY KEY,
    question_set  INTEGER NOT NULL REFERENCES question_set (id),
    direction     INTEGER NOT NULL CHECK (direction IN (0, 1)),
    ordinal       INTEGER NOT NULL,
    text          TEXT NOT NULL,
    keywords      TEXT NOT NULL,
    vector_row    INTEGER NOT NULL
) STRICT;
CREATE INDEX question_of_set ON question (question_set, direction, ordinal);

-- CONTENT. The full-text index of passages. rowid is passage.id. The text itself is not copied.
CREATE VIRTUAL TABLE passage_text USING fts5 (
    body, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE passage_term USING fts5vocab (passage_text, 'instance');

-- INTERVAL. One revision of one document. content: the blake2b-128 digest of its bytes.
-- Invariant: at each version, at most one row of each (source, path) is in force.
CREATE TABLE document (
    id          INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES source (id),
    path        TEXT NOT NULL,
    content     BLOB NOT NULL,
    media_type  TEXT NOT NULL,
    born        INTEGER NOT NULL,
    died        INTEGER NOT NULL CHECK (died > born)
) STRICT;
CREATE UNIQUE INDEX document_alive ON document (source, path) WHERE died = 9223372036854775807;
CREATE INDEX document_path ON document (source, path, born);
CREATE INDEX document_died ON document (died);

-- The places of passages in a revision of a document. Lines count from 1, and last_line is
-- included. A row is in force while the row of its document is in force.
CREATE TABLE placement (
    document    INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    ordinal     INTEGER NOT NULL,
    passage     INTEGER NOT NULL REFERENCES passage (id),
    first_line  INTEGER NOT NULL,
    last_line   INTEGER NOT NULL,
    PRIMARY KEY (document, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX placement_of_passage ON placement (passage);

-- INTERVAL. A passage is a vertex, with this question set, while a document in force contains it.
-- Invariant: at each version, at most one row of each passage is in force.
--
-- The passage's vector is in passage_vector_<recipe id>, a vec0 table created with the recipe:
--   life INTEGER PRIMARY KEY (life.id), embedding float[d] (row 0 of question_set.vectors),
--   born, died (as in life, so that a search sees only one version), passage. Vectors that are all
--   zero are not stored.
CREATE TABLE life (
    id            INTEGER PRIMARY KEY,
    passage       INTEGER NOT NULL REFERENCES passage (id),
    born          INTEGER NOT NULL,
    died          INTEGER NOT NULL CHECK (died > born),
    question_set  INTEGER NOT NULL REFERENCES question_set (id),
    UNIQUE (passage, born)
) STRICT;
CREATE UNIQUE INDEX life_alive ON life (passage) WHERE died = 9223372036854775807;
CREATE INDEX life_died ON life (died);

-- INTERVAL. A candidate edge: an outgoing question, and the most similar incoming question (target)
-- of all other passages. similarity: Eq. 1 of the paper, exact (see records.py).
-- Invariants: while a match is in force, the passages of both questions are in force. At each
-- version, at most one match of each question is in force.
CREATE TABLE match (
    question    INTEGER NOT NULL REFERENCES question (id),
    born        INTEGER NOT NULL,
    died        INTEGER NOT NULL CHECK (died > born),
    target      INTEGER NOT NULL REFERENCES question (id),
    similarity  REAL NOT NULL,
    PRIMARY KEY (question, born)
) STRICT, WITHOUT ROWID;
CREATE INDEX match_died ON match (died);

-- One committed state of the whole graph.
-- documents, passages: the numbers in force. words: the sum of passage.words in force, for BM25.
-- edge_budget: the maximum number of edges. cut_*: the last match that is an edge. NULL if all
-- matches are edges. A match m in force is an edge if and only if
--   m.similarity > cut_similarity, or m.similarity = cut_similarity and m.question <= cut_question.
-- rules: the rules by which documents are split into passages, to detect a change of the rules.
-- counters: a JSON object with the cost of the version.
CREATE TABLE version (
    id              INTEGER PRIMARY KEY,
    created_ms      INTEGER NOT NULL,
    reason          TEXT NOT NULL,
    recipe          INTEGER NOT NULL REFERENCES recipe (id),
    rules           TEXT NOT NULL,
    documents       INTEGER NOT NULL,
    passages        INTEGER NOT NULL,
    words           INTEGER NOT NULL,
    matches         INTEGER NOT NULL,
    edge_budget     INTEGER NOT NULL,
    cut_similarity  REAL,
    cut_question    INTEGER,
    counters        TEXT NOT NULL
) STRICT;

-- The edges of the newest version, for people to read. The daemon selects the edges in memory.
CREATE VIEW edge AS
SELECT qs.passage AS source, ts.passage AS target, m.question, m.target AS answered_by, m.similarity
FROM match AS m
JOIN version AS v ON v.id = (SELECT max(id) FROM version)
JOIN question AS q ON q.id = m.question
JOIN question_set AS qs ON qs.id = q.question_set
JOIN question AS t ON t.id = m.target
JOIN question_set AS ts ON ts.id = t.question_set
WHERE m.died = 9223372036854775807
  AND (v.cut_question IS NULL OR m.similarity > v.cut_similarity
       OR (m.similarity = v.cut_similarity AND m.question <= v.cut_question));
