-- Removes large indexes with random keys, because each commit of an import would write most of
-- their pages. A question is found in the question sets of its passage. A purge reads all matches
-- to find the matches to its questions. `match` has no foreign keys, because they would need these
-- indexes.
DROP VIEW edge;
CREATE TABLE new_match (
    question    INTEGER NOT NULL,
    born        INTEGER NOT NULL,
    died        INTEGER NOT NULL CHECK (died > born),
    target      INTEGER NOT NULL,
    similarity  REAL NOT NULL,
    PRIMARY KEY (question, born)
) STRICT, WITHOUT ROWID;
INSERT INTO new_match (question, born, died, target, similarity)
SELECT question, born, died, target, similarity FROM match ORDER BY question, born;
DROP TABLE match;
ALTER TABLE new_match RENAME TO match;
CREATE INDEX match_born ON match (born);
CREATE INDEX match_died ON match (died) WHERE died < 9223372036854775807;
DROP INDEX question_id;

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
