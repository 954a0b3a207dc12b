-- The first schema. docs/reference/database-format.md is its guide.
--
-- Two kinds of rows:
--   content    immutable, addressed by its own hash, shared by all versions (it is also the cache of
--              everything that was expensive to compute): passage, question_set, question,
--              passage_text
--   intervals  when content is in force: document, life, passage_vector_<recipe>, match. A row
--              holds in the versions born <= v < died; died = 9223372036854775807 while it holds
--              at the head.
-- A version is the single row in `version` that commits with its intervals.
--
-- Ids named "content id" are the upper 63 bits of a blake2b-64 digest, so that the same content has
-- the same id in every database.

-- Origins of documents. Invariant: name is unique and never reused for another location.
CREATE TABLE source (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    kind      TEXT NOT NULL,
    location  TEXT NOT NULL
) STRICT;

-- What the last scan saw of each item: operational, not versioned, used to skip unchanged items.
-- content: blake2b-128 of the bytes last read, NULL if they could never be read.
-- why, hint: the item's present problem, NULL when it has none.
CREATE TABLE seen (
    source    INTEGER NOT NULL REFERENCES source (id),
    path      TEXT NOT NULL,
    revision  TEXT NOT NULL,
    content   BLOB,
    why       TEXT,
    hint      TEXT,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;

-- The last state of each source: operational, not versioned. Times are Unix milliseconds.
-- problem, hint: why the source is paused or only partly listed, NULL when it is healthy.
CREATE TABLE source_state (
    source        INTEGER PRIMARY KEY REFERENCES source (id),
    scanned_ms    INTEGER,
    problem       TEXT,
    hint          TEXT
) STRICT;

-- How content is made: a name for (question generator, its version, encoder).
CREATE TABLE recipe (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    encoder     TEXT NOT NULL,
    dimensions  INTEGER NOT NULL
) STRICT;

-- Exact totals over the life of the database: passages_generated, texts_embedded, ...
CREATE TABLE counter (
    name   TEXT PRIMARY KEY,
    value  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- CONTENT. id: content id of (heading path, text). heading: JSON array, outermost first.
-- words: number of words in heading and text, the length that BM25 normalises by.
CREATE TABLE passage (
    id       INTEGER PRIMARY KEY,
    heading  TEXT NOT NULL,
    text     TEXT NOT NULL,
    words    INTEGER NOT NULL
) STRICT;

-- CONTENT. The questions of one passage under one recipe. id: content id of (passage, recipe name).
-- vectors: m x d int16, little-endian, row-major: unit vectors on the grid 1/4000 (see records.py).
-- Row 0 is the vector of the passage itself.
CREATE TABLE question_set (
    id       INTEGER PRIMARY KEY,
    passage  INTEGER NOT NULL REFERENCES passage (id),
    recipe   INTEGER NOT NULL REFERENCES recipe (id),
    vectors  BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX question_set_of_passage ON question_set (passage, recipe);

-- CONTENT. A triplet (q, k, v). id: content id of (set, direction, ordinal).
-- direction: 0 incoming (the passage answers it), 1 outgoing (the passage raises it).
-- keywords: sorted JSON array. vector_row: the row of question_set.vectors that is its vector.
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

-- CONTENT. Full text of passages: rowid = passage.id. Keeps an index only, no copy of the text.
CREATE VIRTUAL TABLE passage_text USING fts5 (
    body, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE passage_term USING fts5vocab (passage_text, 'instance');

-- INTERVAL. One revision of one document. content: blake2b-128 of its bytes.
-- Invariant: at most one row a (source, path) holds at any version.
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

-- Where the passages of a document revision stand: lines are 1-based and inclusive.
-- A row is in force exactly when its document is.
CREATE TABLE placement (
    document    INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    ordinal     INTEGER NOT NULL,
    passage     INTEGER NOT NULL REFERENCES passage (id),
    first_line  INTEGER NOT NULL,
    last_line   INTEGER NOT NULL,
    PRIMARY KEY (document, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX placement_of_passage ON placement (passage);

-- INTERVAL. A passage is a vertex, with this question set, while some document in force holds it.
-- Invariant: at most one row a passage holds at any version.
--
-- Its vector is in passage_vector_<recipe id>, a vec0 table that is made with the recipe:
--   life INTEGER PRIMARY KEY (life.id), embedding float[d] (row 0 of question_set.vectors),
--   born, died (as in life, so that a search sees one version), passage. A vector without
--   direction (all zero) is left out.
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

-- INTERVAL. The incoming question (target) most similar to one outgoing question, among all other
-- passages: a candidate edge. similarity: Eq. 1 of the paper, exact (see records.py).
-- Invariants: both questions' passages hold while the match does; at most one row a question holds.
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
-- passages, documents, words: counts in force (words: sum of passage.words, for BM25).
-- edge_budget: how many matches the budget admits. cut_*: the last admitted match, NULL when all
-- are: a match m in force is an edge exactly when
--   m.similarity > cut_similarity, or m.similarity = cut_similarity and m.question <= cut_question.
-- rules: how documents become passages, so that a change of the rules is noticed.
-- counters: JSON object, what the version cost.
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

-- The edges of the newest version, for reading by eye; the graph itself applies the cut in memory.
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
