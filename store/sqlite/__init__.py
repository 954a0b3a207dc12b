"""The embedded engine: schema, commits, as-of reads, collection, checks."""
