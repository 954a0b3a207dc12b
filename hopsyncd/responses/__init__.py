"""The types of all API answers: the daemon returns them, and clients check them."""
