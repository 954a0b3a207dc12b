"""The Model Context Protocol: the daemon's answers as tools and resources for agents."""
