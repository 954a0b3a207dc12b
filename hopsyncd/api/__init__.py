"""The HTTP API and the sockets on which it is served."""
