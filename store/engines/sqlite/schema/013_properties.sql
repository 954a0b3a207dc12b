-- What a revision says of itself, by which questions can be narrowed: a JSON array of [name, value],
-- sorted: tag, author, and each property of the front matter; created and modified, as ISO 8601.
-- modified is when this content was written, as far as its source or its text tells: a file that is
-- only touched keeps it. Rows of older schemas get them when they are read again.
ALTER TABLE document ADD COLUMN properties TEXT NOT NULL DEFAULT '[]';
