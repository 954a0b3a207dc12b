"""The graph in memory: matching, the edge budget, names and links. It does no I/O."""
