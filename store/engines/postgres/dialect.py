"""The SQL of PostgreSQL, and its parameters."""

from functools import lru_cache


class PostgresDialect:
    """See `store.contract.Dialect`. The server's planner needs no advice on indexes and joins."""

    first_join = "JOIN"
    unindexed = ""
    has_vector_tables = False

    @staticmethod
    def ids(parameter: str = "?") -> str:
        return f"(SELECT json_array_elements_text({parameter}::json)::bigint)"

    @staticmethod
    def names(parameter: str = "?") -> str:
        return f"(SELECT json_array_elements_text({parameter}::json))"

    @staticmethod
    def list_rows(parameter: str, alias: str) -> str:
        return f"json_array_elements_text({parameter}::json) AS {alias} (value)"

    @staticmethod
    def indexed_by(index: str) -> str:
        return ""

    @staticmethod
    def wrong_types(*columns: str) -> str:
        return "false"  # the server refuses such values


@lru_cache(512)
def with_parameters(sql: str) -> str:
    """The statement with psycopg's parameters; numbered ones are called p1, p2 ...

    The record's statements have parameters of one digit, and no other question mark.

    >>> with_parameters("SELECT 1 FROM life WHERE born <= ?1 AND ?1 < died")
    'SELECT 1 FROM life WHERE born <= %(p1)s AND %(p1)s < died'
    >>> with_parameters("SELECT id FROM tag WHERE name = ?")
    'SELECT id FROM tag WHERE name = %s'
    """
    first, *parts = sql.replace("%", "%%").split("?")
    return first + "".join(
        f"%(p{part[0]})s{part[1:]}" if part[:1].isdigit() else f"%s{part}" for part in parts
    )
