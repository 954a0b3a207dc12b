"""Where documents come from: list, fetch, say what is wrong. Knows neither graph, model nor SQL."""
