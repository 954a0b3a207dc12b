"""What a SQLite database offers as documents: its tables, and their columns that look like it."""

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from connectors.sqlite import open_read_only, refused

_TEXT_TYPES = ("CHAR", "CLOB", "TEXT")  # SQLite's own rule for a column of text
_TITLES = frozenset(("title", "subject", "name", "heading", "headline"))
_NO_PROSE = re.compile(
    r"(?:^|_)(?:id|uuid|guid|slug|at|on|date|time|created|updated|modified|url|uri|path|file|hash"
    r"|token|password|secret|key|email|phone|kind|type|status|state|lang|language)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `key`, `text` and `title` are empty where no column looks like that."""

    name: str
    columns: tuple[str, ...]
    key: str
    text: tuple[str, ...]
    title: str


def tables_of(path: Path) -> list[Table]:
    """The tables of a database by name, without SQLite's own. Raises SourceUnavailable."""
    with closing(open_read_only(path)) as connection, refused(path):
        names = connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        found = []
        for (name,) in names.fetchall():
            columns = connection.execute(
                "SELECT name, upper(type), pk FROM pragma_table_info(?) ORDER BY cid", [name]
            ).fetchall()
            unique = connection.execute(
                "SELECT max(c.name) FROM pragma_index_list(?) AS i"
                ' JOIN pragma_index_info(i.name) AS c WHERE i."unique" AND NOT i.partial'
                " GROUP BY i.name HAVING count(*) = 1 ORDER BY 1",
                [name],
            ).fetchall()
            found.append(_table(name, columns, [row[0] for row in unique]))
        return found


def _table(name: str, columns: list[tuple[str, str, int]], unique: list[str]) -> Table:
    primary = [column for column, _, at in columns if at]
    keys = primary if len(primary) == 1 else unique
    prose = [
        column
        for column, declared, _ in columns
        if any(part in declared for part in _TEXT_TYPES)
        and column not in keys[:1]
        and not _NO_PROSE.search(column)
    ]
    titles = [column for column in prose if column.lower() in _TITLES and len(prose) > 1]
    return Table(
        name,
        tuple(column for column, _, _ in columns),
        keys[0] if keys else "",
        tuple(column for column in prose if column not in titles[:1]),
        titles[0] if titles else "",
    )
