-- Finds the matches to a question. Without this index, a purge would read all matches.
CREATE INDEX match_target ON match (target);
