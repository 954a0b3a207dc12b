"""The read path: strategies, and answers with citations."""
