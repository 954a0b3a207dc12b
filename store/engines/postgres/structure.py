"""Checks of the structure of the database on a server, beneath the rows of the record."""

from collections.abc import Iterator

from store.contract import Connection, server_of
from store.records import RESTORE, Finding


def server_structure(connection: Connection) -> Iterator[Finding]:
    for detail in server_of(connection).findings():
        yield Finding("the database's structure is sound", "database", detail, RESTORE)
