"""The web interface: shows the daemon's data in a browser."""
