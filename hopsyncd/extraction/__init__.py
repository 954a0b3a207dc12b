"""Reading documents in a process of its own, so that no file can harm the daemon."""
