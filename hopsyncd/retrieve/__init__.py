"""The read path: finds seeds, walks the graph, runs the strategies, and explains each result."""
