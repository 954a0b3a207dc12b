"""Migrates the schema. Each step runs a script in schema/, followed by Python code if SQL is not
enough."""

import sqlite3
from collections.abc import Callable, Iterator
from importlib import resources
from typing import TYPE_CHECKING, cast

from store.contract import Connection
from store.digests import fill_digests
from store.engines.sqlite.extension import load_extension

if TYPE_CHECKING:
    from sqlite_utils import Database


def _split_statements(script: str) -> Iterator[str]:
    """Split a SQL script into statements, because `executescript()` would commit in the middle of
    the migration."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


_STEPS = """\
001_initial 002_history 003_digest 004_retention 005_llm 006_cursor 007_jobs 008_links 009_origin
010_rules 011_feed 012_targets 013_properties 014_watches 015_words 016_purging 017_access
018_skipped 019_probe 020_clustered 021_seen 022_makers 023_lookups 024_vectors
""".split()
SCHEMA_VERSION = len(_STEPS)


def apply_migrations(connection: Connection, stop_before: str | None = None) -> None:
    """Run the missing migrations within the caller's transaction."""
    from sqlite_utils import Database  # slow to import, and most starts have nothing to migrate
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("hopsyncd")
    for name in _STEPS:
        migrations(name=name)(_make_step(name))
    migrations.apply(Database(cast(sqlite3.Connection, connection)), stop_before=stop_before)


def _make_step(name: str) -> Callable[["Database"], None]:
    def run(db: "Database") -> None:
        for statement in _split_statements(
            resources.files("store.engines.sqlite").joinpath("schema", f"{name}.sql").read_text()
        ):
            db.conn.execute(statement)
        if name == "003_digest":
            fill_digests(cast(Connection, db.conn))
        if name == "024_vectors":
            _drop_vectors(db.conn)

    return run


def _drop_vectors(connection: sqlite3.Connection) -> None:
    """Drop the virtual tables of passage vectors. This needs sqlite-vec."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master"
        " WHERE name LIKE 'passage_vector_%' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
    ).fetchall()
    if tables:
        load_extension(connection)
    for (name,) in tables:
        connection.execute(f"DROP TABLE {name}")
