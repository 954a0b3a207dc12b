"""Reads config.toml into one typed model, and reports every mistake with its line and a
suggestion."""
