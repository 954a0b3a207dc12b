"""Measures retrieval on a corpus with questions whose supporting passages are known."""
