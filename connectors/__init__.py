"""The sources of documents: lists them, fetches them, and reports problems. Imports no index, model
or SQL."""
