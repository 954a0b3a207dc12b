-- The metadata of a revision, for filters: a sorted JSON array of [name, value] pairs. The names
-- are tag, author, created, modified, and each property of the front matter. Dates are in ISO 8601.
-- modified is the time at which the content was written, if the source or the text says so.
-- Touching a file does not change it. Rows of older schemas get properties when their documents are
-- reread.
ALTER TABLE document ADD COLUMN properties TEXT NOT NULL DEFAULT '[]';
