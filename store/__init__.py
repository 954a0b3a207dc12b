"""The versioned database: its records, and one folder for each database engine."""
