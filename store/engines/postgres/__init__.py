"""Stores the database on a PostgreSQL server."""
