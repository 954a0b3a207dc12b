-- store/engines/sqlite/schema/016_purging.sql explains the table.
CREATE TABLE purging (
    source  bigint NOT NULL REFERENCES source (id),
    path    bytewise NOT NULL,
    PRIMARY KEY (source, path)
);
