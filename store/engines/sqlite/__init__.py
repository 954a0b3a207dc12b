"""The record in a SQLite file."""
