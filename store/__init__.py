"""The versioned database: its records, and a package for each database engine."""
