"""The write path: watch (a hint), scan (the truth), plan (pure), apply (one version)."""
