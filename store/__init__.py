"""The versioned database: its record types, the queries, and one package per database engine."""
