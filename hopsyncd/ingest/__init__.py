"""The write path: watch for changes, scan the sources, plan, read, and commit one version."""
