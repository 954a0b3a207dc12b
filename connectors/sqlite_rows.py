"""Reads the rows of a SQLite table or query as documents, without ever writing to the database.

A listing is one read transaction, so it sees a single state while other programs write. The listing
collects all rows before it yields the first row. If the database cannot be listed completely, no
document changes.

The databases are not trusted. A table can be a view that never ends, or that builds a gigabyte from
a few bytes. Each read therefore has a deadline, each value a maximum length, and the connection a
memory limit. SQLite enforces these limits, because they must hold within one statement.

If no program writes to the file, it is opened as immutable: no lock is acquired, and no file is
created next to it. If the file changes during the read, the result is discarded. While another
program has the file open for writing, it is opened with locks.
"""

import hashlib
import importlib.util
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.protocol import (
    Fetched,
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    Selection,
    SourceUnavailable,
    compute_mark,
)
from connectors.regular_file import describe_too_large

BUSY_S = 5.0
LIST_S = 30.0
FETCH_S = 10.0
MAX_MEMORY_BYTES = 512 << 20

_MORE_THAN_A_ROW_BYTES = 1 << 20
_AT_REST_S = 2.0  # some file systems have timestamps of this resolution
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COLUMN: 2000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


@dataclass(frozen=True, slots=True)
class Database:
    """The database file of a source. `never` are folders with hopsyncd's own data. Databases in
    these folders are not read.

    `max_value_bytes` limits the length of a value, and of a row that SQLite builds.
    """

    path: Path
    max_value_bytes: int
    busy_s: float = BUSY_S
    never: Sequence[Path] = ()

    @contextmanager
    def open_reading(self, limit_s: float) -> Iterator[sqlite3.Connection]:
        """Open a connection for at most `limit_s` seconds, in one transaction.

        All errors, including errors in the block, become SourceUnavailable. The exception is
        TooBig, which is raised for a value that is too long.
        """
        try:
            with self._open() as connection, _deadline(connection, limit_s) as is_late:
                try:
                    connection.execute("BEGIN")
                    yield connection
                except (sqlite3.Error, MemoryError) as error:
                    if is_late():
                        raise self._slow_error(limit_s) from error
                    raise
        except sqlite3.DataError as error:
            if "too big" in str(error):
                raise TooBig(*self._describe_error(error)) from error
            raise SourceUnavailable(*self._describe_error(error)) from error
        except (OSError, sqlite3.Error, MemoryError) as error:
            raise SourceUnavailable(*self._describe_error(error)) from error

    def unavailable_error(self, why: str, hint: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"Cannot list the database {self.path}",
            why,
            f"{hint} Indexed documents stay searchable.",
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        before = self._read_state()
        mode = "immutable=1" if before.is_at_rest(time.time()) else "mode=ro"
        with closing(self._connect_once(mode)) as connection:
            yield connection
        if mode == "immutable=1" and self._read_state() != before:
            raise self.unavailable_error(
                "another program changed the file during the read", "The next scan tries again."
            )

    def _connect_once(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=ro&{mode}",
            uri=True,
            isolation_level=None,
            timeout=self.busy_s,
            check_same_thread=False,
            cached_statements=0,
        )
        try:
            for limit, value in _LIMITS.items():
                connection.setlimit(limit, value)
            connection.setlimit(
                sqlite3.SQLITE_LIMIT_LENGTH, self.max_value_bytes + _MORE_THAN_A_ROW_BYTES
            )
            for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {pragma}")
            if _is_apart():
                # Temporary tables are in memory, so that the limit covers them too.
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.execute(f"PRAGMA hard_heap_limit = {MAX_MEMORY_BYTES}")
        except BaseException:
            connection.close()
            raise
        # Invalid UTF-8 in one row must not prevent other rows from being read.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        return connection

    def _read_state(self) -> "_State":
        if not self.path.is_file():
            raise FileNotFoundError
        never = [os.path.realpath(folder) for folder in self.never]
        if any(Path(os.path.realpath(self.path)).is_relative_to(folder) for folder in never):
            raise self.unavailable_error(
                "the file is hopsyncd's own database", "Choose another file."
            )
        status = self.path.stat()
        return _State(
            (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
            any(Path(f"{self.path}{end}").exists() for end in ("-wal", "-journal")),
        )

    def _slow_error(self, limit_s: float) -> SourceUnavailable:
        return self.unavailable_error(
            f"reading takes more than {limit_s:g} seconds",
            "Select fewer rows with `query`, or add an index on `key`.",
        )

    def _describe_error(self, error: Exception) -> tuple[str, str, str]:
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = "there is no such file"
        elif isinstance(error, MemoryError):
            why = f"reading takes more than {MAX_MEMORY_BYTES >> 20} MiB of memory"
        elif "too big" in why:
            why = f"the database has values that are longer than {self.max_value_bytes:,} bytes"
        hint = next(
            (hint for part, hint in _HINTS.items() if part in why),
            "Correct `path`, check the file's permissions, or restore the file.",
        )
        described = self.unavailable_error(why, hint)
        return described.what, described.why, described.hint


class TooBig(SourceUnavailable):
    """A value is longer than SQLite is allowed to build or read."""


_HINTS = {
    "no such file": "Mount or create the file, or correct `path` of this source in config.toml.",
    "locked": "Another program is writing to the database. The next scan tries again.",
    "no such": "Correct `table`, `query` or the columns of this source in config.toml.",
    "memory": "Select fewer rows with `query`, or remove sorting from the database's views.",
    "longer than": "Raise `max_bytes` of this source in config.toml, or exclude the long values"
    " with `query`.",
}


@dataclass(frozen=True, slots=True)
class _State:
    facts: tuple[int, ...]
    has_log: bool

    def is_at_rest(self, now_s: float) -> bool:
        """Whether no program seems to have the file open for writing, and any later change would be
        noticed."""
        return not self.has_log and abs(now_s - self.facts[3] / 1e9) > _AT_REST_S


class _Late:
    """Interrupts a connection at a deadline, and reports whether the deadline was reached."""

    def __init__(self, connection: sqlite3.Connection, limit_s: float) -> None:
        self._connection = connection
        self._end_s = time.monotonic() + limit_s
        self._timer = threading.Timer(limit_s, self._interrupt)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self) -> bool:
        return time.monotonic() >= self._end_s

    def cancel(self) -> None:
        self._timer.cancel()
        self._timer.join()

    def _interrupt(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.interrupt()


@contextmanager
def _deadline(connection: sqlite3.Connection, limit_s: float) -> Iterator[_Late]:
    late = _Late(connection, limit_s)
    try:
        yield late
    finally:
        late.cancel()


def _is_apart() -> bool:
    """Whether this module uses a different SQLite library from the store's. A memory limit then
    does not affect the store."""
    return importlib.util.find_spec("pysqlite3") is not None


MAX_ROWS = 250_000
MAX_KEY_BYTES = 1_000
_TABLES_BYTES = 1 << 20  # the limit for a value when tables are described
_KEY_HINT = "Set `key` to a column whose values are never NULL and all different."
_TEXT_TYPES = ("CHAR", "CLOB", "TEXT")  # SQLite's rule for text columns
_TITLES = frozenset(("title", "subject", "name", "heading", "headline"))
_NO_PROSE = re.compile(
    r"(?:^|_)(?:id|uuid|guid|slug|at|on|date|time|created|updated|modified|url|uri|path|file|hash"
    r"|token|password|secret|key|email|phone|kind|type|status|state|lang|language)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """Selects the rows that are documents: all rows of `table` (or a view), or of the SELECT
    statement in `query`.

    The column `key` identifies a row. The values of the `text` columns, joined with blank lines,
    are the document. The value of the column `updated` must change whenever the row changes: a
    listing compares only this value. Without an `updated` column, it compares a hash of the row.
    """

    path: Path
    key: str
    text: tuple[str, ...]
    max_bytes: int
    table: str = ""
    query: str = ""
    title: str = ""
    updated: str = ""
    media_type: str = "text/plain"


class SqliteConnector:
    """Lists and reads the rows of a table or query. Waits at most `busy_s` for a lock.

    `never` are folders with hopsyncd's own data. `list_s` limits the seconds for listing all rows,
    and `fetch_s` the seconds for reading one row.
    """

    def __init__(
        self,
        settings: SqliteSettings,
        busy_s: float = BUSY_S,
        never: Sequence[Path] = (),
        list_s: float = LIST_S,
        fetch_s: float = FETCH_S,
    ) -> None:
        self._settings = settings
        self._database = Database(settings.path, 2 * settings.max_bytes, busy_s, tuple(never))
        self._list_s, self._fetch_s = list_s, fetch_s
        # If one of these settings changes, every row becomes a different document.
        self._mark = compute_mark(
            settings.table, settings.query, settings.text, settings.title, settings.media_type
        )

    def discover(
        self, since: str | None, under: Sequence[str] | None = None
    ) -> Iterator[Item | Problem]:
        """Implement `Connector.discover`. Ignores `since`, and yields no Cursor."""
        parts = Selection(under)
        try:
            with self._database.open_reading(self._list_s) as connection:
                rows = connection.execute(self._select(self._list_columns()))
                items = self._key_by_id(map(self._classify, rows))
        except TooBig:
            # One overlong row must not prevent others from being listed.
            with self._database.open_reading(self._list_s) as connection:
                rows = connection.execute(self._select([]))
                items = self._key_by_id([self._classify_alone(connection, row[0]) for row in rows])
        yield from (row for row in items.values() if parts.has(row.id))

    def _key_by_id(self, rows: Iterable[Item | Problem]) -> dict[str, Item | Problem]:
        """Return the rows by id; a repeated id becomes a Problem. Raises SourceUnavailable if there
        are more than MAX_ROWS rows."""
        items: dict[str, Item | Problem] = {}
        for count, row in enumerate(rows):
            if count >= MAX_ROWS:
                raise self._database.unavailable_error(
                    f"the table or query has more than {MAX_ROWS:,} rows",
                    "Select fewer rows with `query`.",
                )
            is_new = row.id not in items
            items[row.id] = (
                row if is_new else Problem(row.id, "several rows have this key", _KEY_HINT)
            )
        return items

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`."""
        what = f"Cannot read row {item.id!r}"
        try:
            with self._database.open_reading(self._fetch_s) as connection:
                row = self._read_row(connection, item.id)
        except TooBig as error:
            raise ItemUnreadable(what, error.why, error.hint) from error
        if row is None:
            raise ItemVanished(what, "the row no longer exists", "The next scan updates the index.")
        title, updated, *texts = row
        data = _join_values(texts)
        if len(data) > self._settings.max_bytes:
            raise ItemUnreadable(what, *describe_too_large(len(data), self._settings.max_bytes))
        revision = self._compute_revision(updated, title, texts)
        return Fetched(data, revision, self._settings.media_type, _to_text(title) or None)

    def close(self) -> None:
        """Do nothing: no resource stays open."""

    def _list_columns(self) -> list[str]:
        settings = self._settings
        if not settings.updated:
            return [settings.title, "", *settings.text]
        return ["", settings.updated, *settings.text]

    def _select(self, columns: Sequence[str]) -> str:
        """Return a SELECT statement for the key and these columns of all rows. An empty name
        selects NULL."""
        settings = self._settings
        names = ", ".join(_qualify(name) if name else "NULL" for name in (settings.key, *columns))
        rows = (
            f"({settings.query.rstrip().rstrip(';')})"
            if settings.query
            else _quote_name(settings.table)
        )
        return f"SELECT {names} FROM {rows} AS r"

    def _read_row(self, connection: sqlite3.Connection, id_: str) -> tuple[Any, ...] | None:
        settings = self._settings
        select = self._select([settings.title, settings.updated, *settings.text])
        key = _qualify(settings.key)
        # The first condition can use an index. A key of another type needs the second condition.
        for condition in (f"{key} = ?", f"CAST({key} AS TEXT) = ?"):
            for row in connection.execute(f"{select} WHERE {condition}", [id_]):
                if _to_text(row[0]) == id_:
                    return tuple(row[1:])
        return None

    def _classify_alone(self, connection: sqlite3.Connection, key: object) -> Item | Problem:
        """Read a single row, and return its item or problem."""
        id_ = _to_text(key)
        try:
            row = self._read_row(connection, id_)
        except sqlite3.DataError as error:
            if "too big" not in str(error):
                raise
            return Problem(
                _format_id(id_),
                f"the row is too large: more than {2 * self._settings.max_bytes:,} bytes; the limit"
                f" is {self._settings.max_bytes:,}",
                "Raise `max_bytes` of the source in config.toml, or exclude the row with `query`.",
            )
        if row is None:
            return Problem(_format_id(id_), "the row cannot be found by its key", _KEY_HINT)
        return self._classify((key, *row))

    def _classify(self, row: Sequence[Any]) -> Item | Problem:
        key, title, updated, *texts = row
        id_ = _to_text(key)
        if not id_:
            return Problem(_format_id(id_), f"a row has no {self._settings.key!r}", _KEY_HINT)
        if len(id_.encode("utf-8", "replace")) > MAX_KEY_BYTES:
            why = f"the value of {self._settings.key!r} is longer than {MAX_KEY_BYTES:,} bytes"
            return Problem(_format_id(id_), why, _KEY_HINT)
        size_bytes = len(_join_values(texts))
        if size_bytes > self._settings.max_bytes:
            return Problem(id_, *describe_too_large(size_bytes, self._settings.max_bytes))
        return Item(id_, self._compute_revision(updated, title, texts))

    def _compute_revision(self, updated: object, title: object, texts: Sequence[object]) -> str:
        if self._settings.updated:
            return f"{self._mark} updated {updated!r}"
        values = repr([self._mark, _to_text(title), *map(_to_text, texts)]).encode(
            "utf-8", "backslashreplace"
        )
        return hashlib.blake2b(values, digest_size=16).hexdigest()


def _format_id(id_: str) -> str:
    """Return the id to show in a Problem: shortened if it is too long, "(no key)" if it is
    empty."""
    if len(id_.encode("utf-8", "replace")) > MAX_KEY_BYTES:
        return f"{id_[:100]}…"
    return id_ or "(no key)"


def _quote_name(name: str) -> str:
    # SQLite reads an unknown column name in double quotes as a string.
    return "`" + name.replace("`", "``") + "`"


def _qualify(name: str) -> str:
    return f"r.{_quote_name(name)}"


def _join_values(values: Sequence[object]) -> bytes:
    """Join the non-empty values with a blank line between them."""
    texts = [text for value in values if (text := _to_text(value))]
    return "\n\n".join(texts).encode("utf-8", "replace")


def _to_text(value: object) -> str:
    """Convert a SQLite value to text. A blob is decoded as UTF-8."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a database. `key`, `text` and `title` are guesses, or empty if no column is
    suitable."""

    name: str
    columns: tuple[str, ...]
    key: str
    text: tuple[str, ...]
    title: str


def list_tables(path: Path) -> list[Table]:
    """Return the tables of a database by name, without SQLite's own tables. Raises
    SourceUnavailable."""
    with Database(path, _TABLES_BYTES).open_reading(FETCH_S) as connection:
        names = connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        tables = []
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
            tables.append(_make_table(name, columns, [row[0] for row in unique]))
        return tables


def _make_table(name: str, columns: list[tuple[str, str, int]], unique: list[str]) -> Table:
    primary = [column for column, _, position in columns if position]
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
