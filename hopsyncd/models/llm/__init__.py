"""Calls to a large language model: the request, its budget, retries, and the checked reply."""
