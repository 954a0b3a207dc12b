-- Passages whose questions a large language model (LLM) has not generated yet.

-- 1: the built-in generator made the set, because the LLM has not answered. The LLM's set (0) of
-- the same passage and recipe replaces this set later. The id of a provisional set is the content
-- id of (passage, recipe name, "provisional").
ALTER TABLE question_set ADD COLUMN provisional INTEGER NOT NULL DEFAULT 0
    CHECK (provisional IN (0, 1));
DROP INDEX question_set_of_passage;
CREATE UNIQUE INDEX question_set_of_passage ON question_set (passage, recipe, provisional);
CREATE INDEX question_set_provisional ON question_set (recipe, passage) WHERE provisional = 1;

-- Why a set is still provisional, after the last request to the LLM. Operational, not versioned. If
-- a provisional set has no row, the LLM was never asked for it.
-- why: the kind of the LlmError. tries: the number of failures caused by the passage, not by the
-- endpoint. next_ms: the earliest time of the next request, in Unix milliseconds.
CREATE TABLE waiting (
    question_set  INTEGER PRIMARY KEY,
    why           TEXT NOT NULL,
    tries         INTEGER NOT NULL,
    next_ms       INTEGER NOT NULL
) STRICT;
