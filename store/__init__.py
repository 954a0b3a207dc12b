"""The versioned database: record types, queries, and one package for each database engine."""
