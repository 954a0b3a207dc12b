"""The socket and what is served on it."""
