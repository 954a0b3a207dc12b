"""Connects sources of documents: lists their items, fetches the items, and reports problems.

This package imports no index, model or SQL.
"""
