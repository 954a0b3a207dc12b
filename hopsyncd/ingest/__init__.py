"""The write path: watch (a hint), scan (the truth), plan (pure), read, commit (one version)."""
