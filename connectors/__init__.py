"""The sources of documents: lists them, fetches them, and reports problems.

It imports no index, model or SQL.
"""
