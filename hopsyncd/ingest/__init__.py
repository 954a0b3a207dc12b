"""The write path: watches for changes, lists sources, plans syncs, reads documents and commits
versions."""
