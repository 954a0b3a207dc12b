"""The write path: watches for changes, scans the sources, plans, reads, and commits versions."""
