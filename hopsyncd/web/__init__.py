"""The page: what the daemon knows, in a browser of this machine."""
