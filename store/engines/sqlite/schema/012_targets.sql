-- The matches to a question, for a purge: else it would read all of them.
CREATE INDEX match_target ON match (target);
