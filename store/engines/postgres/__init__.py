"""The record in a PostgreSQL database."""
