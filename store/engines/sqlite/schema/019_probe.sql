-- probe: a 2 x d matrix of little-endian int16 if the recipe's encoder is an endpoint, else NULL.
-- Row 0 is the vector of a fixed text. If the endpoint returns another vector for it, another model
-- answers under the same name. Row 1 is the centre, which is subtracted from all vectors.
ALTER TABLE recipe ADD COLUMN probe BLOB;
