"""The types of all API responses. The daemon returns them, and clients check them."""
