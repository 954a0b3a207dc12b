"""Calls to a large language model: what is asked, what it may cost, and what comes back."""
