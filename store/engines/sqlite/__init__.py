"""Stores the database in a SQLite file."""
