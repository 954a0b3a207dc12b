-- Indexes for the feed of changes (store/changes.py), in addition to the indexes on died.
CREATE INDEX document_born ON document (born);
CREATE INDEX life_born ON life (born);
CREATE INDEX match_born ON match (born);
