"""The in-memory graph: matching, the edge budget, names and links. It does no I/O."""
