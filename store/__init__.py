"""The versioned record on disk: its records, and one folder for each engine that keeps them."""
