"""Connects the sources of documents: lists their items, fetches them, and reports problems.

This package imports no index, model or SQL.
"""
