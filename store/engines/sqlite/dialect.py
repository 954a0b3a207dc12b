"""The SQL of SQLite; see `store.contract.Dialect`."""


class SqliteDialect:
    """See `store.contract.Dialect`."""

    first_join = "CROSS JOIN"
    unindexed = "NOT INDEXED"
    has_vector_tables = True

    @staticmethod
    def ids(parameter: str = "?") -> str:
        return f"(SELECT value FROM json_each({parameter}))"

    @staticmethod
    def names(parameter: str = "?") -> str:
        return f"(SELECT value FROM json_each({parameter}))"

    @staticmethod
    def list_rows(parameter: str, alias: str) -> str:
        return f"json_each({parameter}) AS {alias}"

    @staticmethod
    def indexed_by(index: str) -> str:
        return f"INDEXED BY {index}"

    @staticmethod
    def wrong_types(*columns: str) -> str:
        types = " || ".join(f"typeof({column})" for column in columns)
        return f"{types} <> '{'integer' * len(columns)}'"
