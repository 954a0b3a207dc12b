"""The schema's history: each step runs a script in schema/, and does what SQL alone cannot."""

import sqlite3
from collections.abc import Iterator
from importlib import resources

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

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


@MIGRATIONS(name="001_initial")
def _initial(db: Database) -> None:
    _run_file(db, "001_initial.sql")


@MIGRATIONS(name="002_history")
def _history(db: Database) -> None:
    _run_file(db, "002_history.sql")


@MIGRATIONS(name="003_digest")
def _digest(db: Database) -> None:
    _run_file(db, "003_digest.sql")
    fill_digests(db.conn)


@MIGRATIONS(name="004_retention")
def _retention(db: Database) -> None:
    _run_file(db, "004_retention.sql")


@MIGRATIONS(name="005_llm")
def _llm(db: Database) -> None:
    _run_file(db, "005_llm.sql")


@MIGRATIONS(name="006_cursor")
def _cursor(db: Database) -> None:
    _run_file(db, "006_cursor.sql")


@MIGRATIONS(name="007_jobs")
def _jobs(db: Database) -> None:
    _run_file(db, "007_jobs.sql")


@MIGRATIONS(name="008_links")
def _links(db: Database) -> None:
    _run_file(db, "008_links.sql")


@MIGRATIONS(name="009_origin")
def _origin(db: Database) -> None:
    _run_file(db, "009_origin.sql")


@MIGRATIONS(name="010_rules")
def _rules(db: Database) -> None:
    _run_file(db, "010_rules.sql")


@MIGRATIONS(name="011_feed")
def _feed(db: Database) -> None:
    _run_file(db, "011_feed.sql")


SCHEMA_VERSION = 11
