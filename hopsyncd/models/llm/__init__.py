"""Calls to a large language model (LLM): the request, its budget, retries, and the checked reply."""
