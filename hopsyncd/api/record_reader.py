"""Connections to the record for the threads that answer requests."""

import threading

from store.contract import Connection
from store.open_database import Database, open_reader


class RecordReader:
    """Opens one reading connection for each thread, and keeps it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._local = threading.local()

    def connection(self) -> Connection:
        """The connection of this thread."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._database)
        return connection
