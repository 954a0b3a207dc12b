-- probe: the vector of a fixed text by the recipe's encoder, int16 little-endian on the grid, where
-- the encoder is behind an endpoint; NULL elsewhere. Another vector means that another model
-- answers under the same name.
ALTER TABLE recipe ADD COLUMN probe BLOB;
