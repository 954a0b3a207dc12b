"""The page: shows the daemon's data in a browser."""
