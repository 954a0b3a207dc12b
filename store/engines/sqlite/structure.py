"""Checks the structure of a SQLite file, such as its b-trees. The content of rows is not
checked."""

from collections.abc import Iterator
from contextlib import closing

from store.contract import Connection
from store.engines.sqlite.database import APPLICATION_ID, open_fresh_database, read_objects
from store.engines.sqlite.migrations import SCHEMA_VERSION
from store.records import RESTORE, Finding, name_rows


def check_quick_integrity(connection: Connection) -> Iterator[Finding]:
    yield from _run_pragma(connection, "quick_check")


def check_integrity(connection: Connection) -> Iterator[Finding]:
    yield from _run_pragma(connection, "integrity_check")


def check_small_tables(connection: Connection) -> Iterator[Finding]:
    """Check the structure of the small tables, not of the tables of matches and content."""
    for table in ("document", "life", "version", "recipe", "source", "pin", "tag"):
        yield from _run_pragma(connection, f"quick_check({table})")


def _run_pragma(connection: Connection, pragma: str) -> Iterator[Finding]:
    for (line,) in connection.execute(f"PRAGMA {pragma}"):
        if line != "ok":
            yield Finding("SQLite's structure is sound", "file", line, RESTORE)


def check_schema(connection: Connection) -> Iterator[Finding]:
    numbers = {"application_id": APPLICATION_ID, "user_version": SCHEMA_VERSION}
    for pragma, expected_value in numbers.items():
        number = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        if number != expected_value:
            yield Finding(
                "the file has the current schema",
                pragma,
                f"is {number}, not {expected_value}",
                RESTORE,
            )
    stored = read_objects(connection)
    with closing(open_fresh_database()) as fresh:
        objects = read_objects(fresh)
    for name, sql in objects.items():
        if name not in stored:
            yield Finding("the schema is complete", name, "is missing", RESTORE)
        elif stored[name] != sql:
            yield Finding("the schema is complete", name, "differs from the schema", RESTORE)


def check_references(connection: Connection) -> Iterator[Finding]:
    for table, row_id, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        where = name_rows(table) if row_id is None else f"{name_rows(table)} {row_id}"
        yield Finding(
            "every foreign key refers to a row",
            where,
            f"the row refers to a missing {name_rows(parent)}",
            RESTORE,
        )
    for end in ("question", "target"):  # a foreign key would need an index of the ids
        for question, born in connection.execute(
            "SELECT m.question, m.born FROM match AS m"
            f" LEFT JOIN question AS q ON q.id = m.{end} WHERE q.id IS NULL"
        ):
            yield Finding(
                "every match refers to questions",
                f"match {question}, {born}",
                f"the match refers to a missing {end}",
                RESTORE,
            )
