-- Storing a passage now writes few database pages, however large the database is. The questions of
-- a set are stored together, and match_died indexes only ended matches. Before, the rows of both
-- were spread over many pages.
DROP VIEW edge;
CREATE TABLE clustered_question (
    id            INTEGER NOT NULL,
    question_set  INTEGER NOT NULL REFERENCES question_set (id),
    direction     INTEGER NOT NULL CHECK (direction IN (0, 1)),
    ordinal       INTEGER NOT NULL,
    text          TEXT NOT NULL,
    keywords      TEXT NOT NULL,
    vector_row    INTEGER NOT NULL,
    PRIMARY KEY (question_set, direction, ordinal)
) STRICT, WITHOUT ROWID;
INSERT INTO clustered_question
SELECT id, question_set, direction, ordinal, text, keywords, vector_row
FROM question ORDER BY question_set, direction, ordinal;
DROP TABLE question;
ALTER TABLE clustered_question RENAME TO question;
CREATE UNIQUE INDEX question_id ON question (id);

DROP INDEX match_died;
CREATE INDEX match_died ON match (died) WHERE died < 9223372036854775807;

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
