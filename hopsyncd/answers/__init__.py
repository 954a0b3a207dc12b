"""The types of all answers of the API: the daemon returns them, and clients check them."""
