"""Analyses text for several packages."""
