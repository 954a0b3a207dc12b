"""The read path: seeds, the walk, strategies, and how each passage was reached."""
