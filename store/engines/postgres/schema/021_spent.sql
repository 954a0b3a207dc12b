-- The cost of calls, as in store/ledger.sql. With SQLite, each of these tables is a separate file.
CREATE TABLE llm_spent (
    day                bigint NOT NULL,
    purpose            bytewise NOT NULL,
    source             bytewise NOT NULL,
    version            bigint NOT NULL,
    calls              bigint NOT NULL,
    prompt_tokens      bigint NOT NULL,
    completion_tokens  bigint NOT NULL,
    reserved_tokens    bigint NOT NULL,
    PRIMARY KEY (day, purpose, source, version)
);
CREATE TABLE embedding_spent (
    day                bigint NOT NULL,
    purpose            bytewise NOT NULL,
    source             bytewise NOT NULL,
    version            bigint NOT NULL,
    calls              bigint NOT NULL,
    prompt_tokens      bigint NOT NULL,
    completion_tokens  bigint NOT NULL,
    reserved_tokens    bigint NOT NULL,
    PRIMARY KEY (day, purpose, source, version)
);
CREATE TABLE reranker_spent (
    day                bigint NOT NULL,
    purpose            bytewise NOT NULL,
    source             bytewise NOT NULL,
    version            bigint NOT NULL,
    calls              bigint NOT NULL,
    prompt_tokens      bigint NOT NULL,
    completion_tokens  bigint NOT NULL,
    reserved_tokens    bigint NOT NULL,
    PRIMARY KEY (day, purpose, source, version)
);
