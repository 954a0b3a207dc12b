"""Reads documents in a confined process, so that no file can harm the daemon."""
