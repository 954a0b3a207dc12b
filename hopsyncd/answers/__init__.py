"""The types of all answers of the API: what the daemon's code returns and clients check."""
