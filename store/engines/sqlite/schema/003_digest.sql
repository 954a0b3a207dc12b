-- Digests of content whose id does not name it, so that a check can tell it is what was written.

-- blake2b-128 of the set's vectors and questions, in their order (store/digests.py).
ALTER TABLE question_set ADD COLUMN digest BLOB;

-- blake2b-128 of the revision's source, path, content, media type and places.
ALTER TABLE document ADD COLUMN digest BLOB;
