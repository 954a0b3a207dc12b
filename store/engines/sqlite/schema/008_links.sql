-- What documents are called, and where they name each other. Both are as written there; which
-- document a link means is found when a version is read, and stored nowhere.

-- What others may call the revision beside its path: a JSON array of titles and aliases, of a
-- message its Message-ID.
ALTER TABLE document ADD COLUMN names TEXT NOT NULL DEFAULT '[]';

-- The links that stand in the passage at this place, in order: a JSON array of [target, shown].
ALTER TABLE placement ADD COLUMN links TEXT NOT NULL DEFAULT '[]';
CREATE INDEX placement_with_links ON placement (document, ordinal) WHERE links <> '[]';
