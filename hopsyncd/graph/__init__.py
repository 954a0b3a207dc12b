"""Pure graph mathematics: similarity, merging, budget, walk. numpy and records only."""
