"""The graph in memory: matches, the edge budget, names and links. This package does no I/O."""
