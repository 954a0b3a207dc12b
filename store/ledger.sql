-- What calls to an LLM took: a database of its own (llm.db), numbers and names only.

-- One row a day, purpose, source and version. day: since 1970-01-01, UTC. source: '' for calls about
-- several. version: the one that the calls were made for; 0 for none, or for one not yet committed.
-- calls: requests, also those that failed. reserved_tokens: of requests that have not ended; those of
-- a process that was killed stay, and count as spent.
CREATE TABLE spent (
    day                INTEGER NOT NULL,
    purpose            TEXT    NOT NULL,
    source             TEXT    NOT NULL,
    version            INTEGER NOT NULL,
    calls              INTEGER NOT NULL,
    prompt_tokens      INTEGER NOT NULL,
    completion_tokens  INTEGER NOT NULL,
    reserved_tokens    INTEGER NOT NULL,
    PRIMARY KEY (day, purpose, source, version)
) STRICT, WITHOUT ROWID;
