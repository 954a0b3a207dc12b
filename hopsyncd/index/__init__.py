"""The graph: matching, the edge budget, names and links. numpy and records only."""
