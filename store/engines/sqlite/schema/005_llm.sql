-- Questions that a large language model was asked for, and still owes.

-- 1: made by the built-in generator alone, as the LLM gave none; the passage's set of the same recipe
-- with 0 takes its place once there is one. id: content id of (passage, recipe name, "provisional").
ALTER TABLE question_set ADD COLUMN provisional INTEGER NOT NULL DEFAULT 0
    CHECK (provisional IN (0, 1));
DROP INDEX question_set_of_passage;
CREATE UNIQUE INDEX question_set_of_passage ON question_set (passage, recipe, provisional);
CREATE INDEX question_set_provisional ON question_set (recipe, passage) WHERE provisional = 1;

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
