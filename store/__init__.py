"""The versioned graph on SQLite: schema, commits, as-of reads, search."""
