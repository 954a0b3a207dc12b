"""SQLite's statements in PostgreSQL's words.

The statements of the record are valid in both but for parameters, JSON arrays as arguments, and
what tells SQLite which index to use and which table to read first.
"""

import re
from functools import lru_cache

_PARAMETER = re.compile(r"\?(\d*)")
_TEXTS = re.compile(r"(name (?:NOT )?IN \(SELECT value FROM )json_each\(([^()]*)\)")
_NUMBERS = re.compile(r"SELECT value FROM json_each\(([^()]*)\)")
_TABLE = re.compile(r"json_each\(([^()]*)\) AS (\w+)")
_HINT = re.compile(r" (?:NOT INDEXED|INDEXED BY \w+)")


@lru_cache(512)
def translated(sql: str) -> str:
    """The statement for psycopg; numbered parameters are called p1, p2 ...

    >>> translated("SELECT 1 FROM life NOT INDEXED WHERE born <= ?1 AND ?1 < died")
    'SELECT 1 FROM life WHERE born <= %(p1)s AND %(p1)s < died'
    >>> translated("SELECT id FROM tag WHERE id IN (SELECT value FROM json_each(?))")
    'SELECT id FROM tag WHERE id IN (SELECT json_array_elements_text(%s::json)::bigint)'
    """
    sql = _HINT.sub("", sql.replace("%", "%%").replace("CROSS JOIN", "JOIN"))
    sql = _TEXTS.sub(r"\1json_array_elements_text(\2::json) AS t (value)", sql)
    sql = _NUMBERS.sub(r"SELECT json_array_elements_text(\1::json)::bigint", sql)
    sql = _TABLE.sub(r"json_array_elements_text(\1::json) AS \2 (value)", sql)
    return _PARAMETER.sub(lambda found: f"%(p{found[1]})s" if found[1] else "%s", sql)
