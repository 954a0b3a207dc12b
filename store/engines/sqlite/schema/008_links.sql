-- The names of documents, and the links between them. Both are stored as written. Links are
-- resolved when a version is read, and the result is not stored.

-- The revision's names other than its path: a JSON array of titles and aliases, and the Message-ID
-- of an email.
ALTER TABLE document ADD COLUMN names TEXT NOT NULL DEFAULT '[]';

-- The links of the passage at this place, in text order: a JSON array of [target, text] pairs.
ALTER TABLE placement ADD COLUMN links TEXT NOT NULL DEFAULT '[]';
CREATE INDEX placement_with_links ON placement (document, ordinal) WHERE links <> '[]';
