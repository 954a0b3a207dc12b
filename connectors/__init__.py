"""Where documents come from: list, fetch, say what is wrong. Knows no graph, no model, no SQL."""
