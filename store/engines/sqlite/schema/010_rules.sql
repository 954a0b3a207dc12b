-- The rules by which the source's documents were read. Operational, not versioned. Items without a
-- `seen.revision` are exceptions: they must be reread. If the rules differ from the current rules,
-- all documents of the source are reread. '' means that the source was never synced.
ALTER TABLE source_state ADD COLUMN rules TEXT NOT NULL DEFAULT '';

-- Earlier schemas had the rules only in the newest version, for all sources together.
UPDATE source_state
SET rules = coalesce((SELECT rules FROM version ORDER BY id DESC LIMIT 1), '');
