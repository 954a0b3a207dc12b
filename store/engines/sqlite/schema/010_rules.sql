-- By which rules the documents of a source were read: operational, not versioned. All of them, but
-- for those that `seen` has no revision of: what they say must be read again. Other rules than the
-- present ones mean that the source is to be read afresh. '': it never had a document.
ALTER TABLE source_state ADD COLUMN rules TEXT NOT NULL DEFAULT '';

-- Until now the rules were compared with those of the newest version, for all sources at once.
UPDATE source_state
SET rules = coalesce((SELECT rules FROM version ORDER BY id DESC LIMIT 1), '');
