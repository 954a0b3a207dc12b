"""The write path: watches for changes, lists sources, plans syncs, reads documents, commits
versions."""
