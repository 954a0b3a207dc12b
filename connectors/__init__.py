"""Connects sources of documents: lists their items, fetches the items, and reports problems.

This package imports nothing from hopsyncd or store.
"""
