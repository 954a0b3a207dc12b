"""The schema's history: each step runs a script in schema/, and does what SQL alone cannot."""

import sqlite3
from collections.abc import Iterator
from importlib import resources
from typing import cast

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from store.contract import Connection
from store.sqlite.digests import fill_digests

MIGRATIONS = Migrations("hopsyncd")


def _statements(script: str) -> Iterator[str]:
    """Split a SQL script; executescript() would commit in the middle of the migration."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _run_file(db: Database, name: str) -> None:
    for statement in _statements(
        resources.files("store.sqlite").joinpath("schema", name).read_text()
    ):
        db.conn.execute(statement)


_STEPS = """\
001_initial 002_history 003_digest 004_retention 005_llm 006_cursor 007_jobs 008_links 009_origin
010_rules 011_feed 012_targets 013_properties 014_watches
""".split()
SCHEMA_VERSION = len(_STEPS)


def _step(name: str) -> None:
    @MIGRATIONS(name=name)
    def run(db: Database) -> None:
        _run_file(db, f"{name}.sql")
        if name == "003_digest":
            fill_digests(cast(Connection, db.conn))


for step in _STEPS:
    _step(step)
