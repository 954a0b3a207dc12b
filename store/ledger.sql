-- The cost of LLM calls, in a separate database (llm.db). It contains only numbers and names.

-- One row for each day, purpose, source and version. day: days since 1970-01-01, in UTC. source: ''
-- for calls about several sources. version: the version for which the calls were made. 0 if there
-- is none, or if it is not committed yet. calls: the number of requests, including failed requests.
-- reserved_tokens: the tokens reserved for requests that have not ended. If a process is killed,
-- its reserved tokens remain and count as spent.
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
