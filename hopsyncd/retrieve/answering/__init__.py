"""From ranked passages to an answer with citations, by an LLM or by the sentences themselves."""
