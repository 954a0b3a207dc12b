"""Tools and resources for agents, over the API."""
