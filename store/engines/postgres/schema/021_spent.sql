-- What calls took, as store/ledger.sql says: one table for each of the files of a database in a file.
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
