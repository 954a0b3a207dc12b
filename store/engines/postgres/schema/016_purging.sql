-- As store/engines/sqlite/schema/016_purging.sql says.
CREATE TABLE purging (
    source  bigint NOT NULL REFERENCES source (id),
    path    bytewise NOT NULL,
    PRIMARY KEY (source, path)
);
