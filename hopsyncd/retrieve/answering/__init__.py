"""Turns ranked passages into an answer with citations, by an LLM or from the passages' own
sentences."""
