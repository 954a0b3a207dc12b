"""The socket, and the HTTP API that is served on it."""
