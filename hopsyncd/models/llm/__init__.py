"""Calls to a large language model (LLM): request, budget, retries and checked reply."""
