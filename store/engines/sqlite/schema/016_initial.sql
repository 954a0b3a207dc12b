-- The schema of the first release. docs/reference/database-format.md is its guide. Columns that were
-- added while it was developed stand at the end of their tables, as ALTER TABLE leaves them.
--
-- Two kinds of rows:
--   content    immutable, addressed by its own hash, shared by all versions (it is also the cache of
--              everything that was expensive to compute): passage, question_set, question
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
-- cursor: where the next listing can begin, opaque outside of the source's connector; all that it
--   covers is indexed. NULL: at the beginning, so that everything is listed.
-- listed_ms: when everything was last listed, NULL before the first time.
-- settings: how the source was configured when the cursor was made; with others it holds no more.
-- held_ms: when the user paused the source; NULL: it is not paused by hand.
-- rules: by which rules all documents of the source were read, but for those that `seen` has no
--   revision of. With other rules than the present ones, the source is read afresh. '': it never had
--   a document.
CREATE TABLE source_state (
    source        INTEGER PRIMARY KEY REFERENCES source (id),
    scanned_ms    INTEGER,
    problem       TEXT,
    hint          TEXT
, cursor TEXT, listed_ms INTEGER, settings TEXT NOT NULL DEFAULT '', held_ms INTEGER, rules TEXT NOT NULL DEFAULT '') STRICT;

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
-- digest: blake2b-128 of the set's vectors and questions, in their order (store/content.py).
-- provisional: 1: made by the built-in generator alone, as the LLM gave none; the passage's set of the
--   same recipe with 0 takes its place once there is one. id: content id of (passage, recipe name,
--   "provisional").
CREATE TABLE question_set (
    id       INTEGER PRIMARY KEY,
    passage  INTEGER NOT NULL REFERENCES passage (id),
    recipe   INTEGER NOT NULL REFERENCES recipe (id),
    vectors  BLOB NOT NULL
, digest BLOB, provisional INTEGER NOT NULL DEFAULT 0
    CHECK (provisional IN (0, 1))) STRICT;
CREATE UNIQUE INDEX question_set_of_passage ON question_set (passage, recipe, provisional);
CREATE INDEX question_set_provisional ON question_set (recipe, passage) WHERE provisional = 1;

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

-- INTERVAL. One revision of one document. content: blake2b-128 of its bytes.
-- Invariant: at most one row a (source, path) holds at any version.
-- digest: blake2b-128 of the revision's source, path, content, media type and places.
-- names: what others may call the revision beside its path: a JSON array of titles and aliases, of a
--   message its Message-ID. Which document a link means is found when a version is read.
-- origin: what the source says of the revision, for people: a JSON object with some of author, date,
--   commit, url and message_id. Of several origins that gave the same content, the one first seen.
-- properties: what a revision says of itself, by which questions can be narrowed: a JSON array of
--   [name, value], sorted: tag, author, and each property of the front matter; created and modified,
--   as ISO 8601. modified is when this content was written, as far as its source or its text tells: a
--   file that is only touched keeps it.
CREATE TABLE document (
    id          INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES source (id),
    path        TEXT NOT NULL,
    content     BLOB NOT NULL,
    media_type  TEXT NOT NULL,
    born        INTEGER NOT NULL,
    died        INTEGER NOT NULL CHECK (died > born)
, digest BLOB, names TEXT NOT NULL DEFAULT '[]', origin TEXT NOT NULL DEFAULT '{}', properties TEXT NOT NULL DEFAULT '[]') STRICT;
CREATE UNIQUE INDEX document_alive ON document (source, path) WHERE died = 9223372036854775807;
CREATE INDEX document_path ON document (source, path, born);
CREATE INDEX document_died ON document (died);
CREATE INDEX document_born ON document (born);

-- Where the passages of a document revision stand: lines are 1-based and inclusive.
-- A row is in force exactly when its document is.
-- links: those in the passage at this place, in order: a JSON array of [target, shown].
CREATE TABLE placement (
    document    INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    ordinal     INTEGER NOT NULL,
    passage     INTEGER NOT NULL REFERENCES passage (id),
    first_line  INTEGER NOT NULL,
    last_line   INTEGER NOT NULL, links TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (document, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX placement_of_passage ON placement (passage);
CREATE INDEX placement_with_links ON placement (document, ordinal) WHERE links <> '[]';

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
CREATE INDEX life_born ON life (born);

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
CREATE INDEX match_born ON match (born);
-- For a purge: else it would read all matches.
CREATE INDEX match_target ON match (target);

-- One committed state of the whole graph.
-- passages, documents, words: counts in force (words: sum of passage.words, for BM25).
-- edge_budget: how many matches the budget admits. cut_*: the last admitted match, NULL when all
-- are: a match m in force is an edge exactly when
--   m.similarity > cut_similarity, or m.similarity = cut_similarity and m.question <= cut_question.
-- rules: how documents become passages, so that a change of the rules is noticed.
-- counters: JSON object, what the version cost.
-- collected_ms: when gc collected the version; NULL while it is kept. The row of a collected version
--   stays for the log, and nothing else of it does: rows that hold at no kept version are deleted.
-- documents_added ... passages_removed: what the version changed, counted when it was committed. A
--   document that is replaced counts as changed; a passage with another question set does not count.
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
, collected_ms INTEGER, documents_added INTEGER NOT NULL DEFAULT 0, documents_changed INTEGER NOT NULL DEFAULT 0, documents_removed INTEGER NOT NULL DEFAULT 0, passages_added INTEGER NOT NULL DEFAULT 0, passages_removed INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX version_kept ON version (id) WHERE collected_ms IS NULL;

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

-- Why a provisional set is one, by the last attempt: operational, not versioned. A provisional set
-- without a row was never tried.
-- why: kind of the LlmError. tries: attempts that failed on this passage and not on the endpoint.
-- next_ms: Unix milliseconds before which the LLM is not asked for it again.
CREATE TABLE waiting (
    question_set  INTEGER PRIMARY KEY,
    why           TEXT NOT NULL,
    tries         INTEGER NOT NULL,
    next_ms       INTEGER NOT NULL
) STRICT;

-- When each job of the schedule last ran: operational, not versioned. Times are Unix milliseconds.
-- ran_ms: when the last run ended. succeeded_ms: when the last one that succeeded did, NULL before
-- the first. error: why the last run failed, NULL when it did not.
CREATE TABLE job (
    name          TEXT PRIMARY KEY,
    ran_ms        INTEGER NOT NULL,
    succeeded_ms  INTEGER,
    error         TEXT
) STRICT, WITHOUT ROWID;

-- Contents at which a reader crashed, or that it was stopped at: operational, not versioned.
-- content: blake2b-128 of media type and bytes. rules: the program and how it reads; others try again.
CREATE TABLE quarantine (
    content   BLOB PRIMARY KEY,
    rules     TEXT NOT NULL,
    why       TEXT NOT NULL,
    since_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Watched questions: operational, not versioned. No text of a document is in them, so a purge has
-- nothing to remove here: passages are named by id, an answer by its digest. Times are Unix
-- milliseconds.
-- act: what to do at a change, JSON: {"exec": [program, argument ...]} or {"webhook": url}; NULL to
-- do nothing but record it. version: the newest for which `state` was recorded. state: JSON with
-- answer (its digest, null without an answer) and passages (the first ones, by rising id).
CREATE TABLE watch (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    question    TEXT NOT NULL,
    act         TEXT,
    created_ms  INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT;

-- A change of a watched question, recorded once, in the transaction that changes watch.state.
-- old, new: the versions that were compared. before, after: the states at these. delivered_ms: when
-- `act` was done, NULL while it is not; error: why it failed.
CREATE TABLE telling (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    watch         INTEGER NOT NULL REFERENCES watch (id) ON DELETE CASCADE,
    old           INTEGER NOT NULL,
    new           INTEGER NOT NULL,
    told_ms       INTEGER NOT NULL,
    before        TEXT NOT NULL,
    after         TEXT NOT NULL,
    delivered_ms  INTEGER,
    error         TEXT
) STRICT;
CREATE INDEX telling_watch ON telling (watch, id);

-- Purges that were asked for and have not come to their end. A start goes on with them.
-- path: the document; '' for all documents that the source ever had.
CREATE TABLE purging (
    source  INTEGER NOT NULL REFERENCES source (id),
    path    TEXT NOT NULL,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
