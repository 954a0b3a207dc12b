-- probe: 2 x d int16, little-endian, where the recipe's encoder is behind an endpoint; NULL
-- elsewhere. Row 0 is the vector of a fixed text: another vector means that another model answers
-- under the same name. Row 1 is the centre, which is subtracted from all vectors.
ALTER TABLE recipe ADD COLUMN probe BLOB;
