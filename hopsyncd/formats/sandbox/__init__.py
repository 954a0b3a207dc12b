"""Reads documents in a confined process, so that a malicious file cannot harm the daemon."""
