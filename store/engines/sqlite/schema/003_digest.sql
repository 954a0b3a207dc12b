-- Digests of content that is not part of an id, so that `check` can detect changed content.

-- The blake2b-128 digest of the set's vectors and questions, in order (store/digests.py).
ALTER TABLE question_set ADD COLUMN digest BLOB;

-- The blake2b-128 digest of the revision's source, path, content, media type and places.
ALTER TABLE document ADD COLUMN digest BLOB;
