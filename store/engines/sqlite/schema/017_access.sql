-- Who may see a source, from the writer's latest configuration.
-- access: a JSON list of lists of `user:NAME` and `group:NAME`. A member must match an entry of
-- each list. `[]` is open to everyone, and `[[]]` is closed to everyone. NULL: not known yet, so
-- closed.
ALTER TABLE source_state ADD COLUMN access TEXT;
