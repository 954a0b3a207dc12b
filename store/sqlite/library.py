"""Which SQLite is in use, and what it can do."""

from dataclasses import dataclass

from store.sqlite.database import SqliteError, fresh_database, memory_database

_WAL_REPAIRED = (3, 51, 3)  # up to 3.51.2 two connections could damage a log that is emptied


@dataclass(frozen=True, slots=True)
class Library:
    """`vec` is the version of sqlite-vec, empty where it does not load."""

    module: str
    sqlite: str
    vec: str
    fts5: bool

    @property
    def keeps_wal_whole(self) -> bool:
        return tuple(int(part) for part in self.sqlite.split(".")) >= _WAL_REPAIRED


def library() -> Library:
    """Asked of the library itself, in memory."""
    plain = memory_database()
    try:
        version = plain.execute("SELECT sqlite_version()").fetchone()[0]
        options = {name for (name,) in plain.execute("PRAGMA compile_options")}
    finally:
        plain.close()
    module = type(plain).__module__.partition(".")[0]
    return Library(module, version, _vec_version(), "ENABLE_FTS5" in options)


def _vec_version() -> str:
    try:
        connection = fresh_database()
    except (SqliteError, AttributeError):
        return ""
    try:
        return str(connection.execute("SELECT vec_version()").fetchone()[0])
    finally:
        connection.close()
