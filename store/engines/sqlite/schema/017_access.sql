-- Who may see a source, as the configuration of the writer last said.
-- access: a JSON list of lists of `user:NAME` and `group:NAME`. A member has to match an entry of
-- each list: `[]` is open, `[[]]` is closed to all. NULL: not known yet, so closed.
ALTER TABLE source_state ADD COLUMN access TEXT;
