"""Runs the store's statements in sessions on a PostgreSQL server.

The tables are in the schema `hopsyncd`. The writer holds an advisory lock in its own session. So a
writer that loses the lock has lost its session too and cannot write. If two writers still compete,
the second commit fails because version numbers are unique.

The lock is a lease. The writer uses its session every few seconds (`heartbeat`), and the server
ends a writer's session that is idle for too long. The server does not end a session that is running
a command. In that case, another candidate for writer ends the session.

If the server closes a reader's session, the reader opens a new session, but not during a snapshot.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib import resources
from typing import Any, cast

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus

from store.contract import Connection, Dialect, Engine, FoundRows, Opened, Parameters, format_place
from store.engines.postgres.heartbeat import LEASE_S, Line
from store.exceptions import (
    Deposed,
    DiskFailure,
    NewerSchema,
    NotADatabase,
    OlderSchema,
    ServerLost,
    StoreError,
    WriterBusy,
)

CHANNEL = "hopsyncd"  # the NOTIFY channel that announces new versions to followers
_WRITER_LOCK, _SCHEMA_LOCK = 0x486F7073, 0x486F7074
_OLDEST_SERVER = 15
_BUSY_S = 3.0  # how long a new writer waits for the lock of a killed writer.
_UNLOCK_S = 2.0  # how long a closing writer waits for the server's answer.
_MIGRATION_S = 10.0  # how long a new reader waits for the writer to create the tables.
# The client detects a dead server within seconds. `_SETTINGS` does the same for the server.
_CLIENT: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_TABLES = "relkind = 'r' AND relnamespace = 'hopsyncd'::regnamespace"
# Statistics are first renewed after _FEW_ROWS inserted rows, then each time the tables have grown
# by the factor _GROWTH. With more than _MANY_ROWS rows, autovacuum does it in time.
_FEW_ROWS, _MANY_ROWS, _GROWTH = 1000, 300_000, 2
_SETTINGS = (
    "SET search_path = hopsyncd, pg_catalog",
    "SET client_min_messages = warning",
    # The default, 4, is for hard disks. Our indexes are in memory or on an SSD.
    "SET random_page_cost = 1.1",
    "SET tcp_keepalives_idle = 5",
    "SET tcp_keepalives_interval = 2",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = 10000",
    # A lost reader must not keep locks and dead rows for long. But loading an index in one
    # snapshot takes minutes.
    "SET idle_in_transaction_session_timeout = '15min'",
)
_WRITER_NAME = "hopsyncd writer"
_LEASE = (
    f"SET application_name = '{_WRITER_NAME}'",
    f"SET idle_session_timeout = '{LEASE_S}s'",
    f"SET idle_in_transaction_session_timeout = '{LEASE_S}s'",
)
_END_SILENT_WRITER = (
    "SELECT pg_terminate_backend(a.pid) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid"
    " = l.pid WHERE l.locktype = 'advisory' AND l.granted AND l.objid = ? AND l.database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND a.usename = current_user"  # Sessions of other users are left alone.
    f" AND a.application_name = '{_WRITER_NAME}' AND a.wait_event_type = 'Client'"
    f" AND a.state_change < clock_timestamp() - interval '{LEASE_S + 1} seconds'"
)
_SCHEMA = resources.files("store.engines.postgres").joinpath("schema")


class PostgresDialect:
    """The SQL of PostgreSQL (see `store.contract.Dialect`). Hints for indexes and joins are empty,
    because PostgreSQL's planner needs none."""

    first_join = "JOIN"
    unindexed = ""
    max_path_bytes = 2600  # A row of an index takes at most a third of a page, 2,704 bytes.

    @staticmethod
    def select_ids(parameter: str = "?") -> str:
        # For an array the planner expects few rows, and uses indexes. For JSON it expects a hundred
        # rows, and would scan a table of 20,000 rows to find one id.
        return f"(SELECT unnest(translate({parameter}, '[]', '{{}}')::bigint[]))"

    @staticmethod
    def select_names(parameter: str = "?") -> str:
        return f"(SELECT json_array_elements_text({parameter}::json))"

    @staticmethod
    def list_rows(parameter: str, alias: str) -> str:
        return f"json_array_elements_text({parameter}::json) AS {alias} (value)"

    @staticmethod
    def force_index(index: str) -> str:
        return ""

    @staticmethod
    def match_wrong_types(*columns: str) -> str:
        return "false"  # The server itself refuses values of a wrong type.


class _Whole(Loader):
    """Loads a numeric value, such as a sum of integers, as int instead of Decimal."""

    def load(self, data: Any) -> int:
        return int(bytes(data))


class Session:
    """A connection to a database on a server (see `store.contract`)."""

    opened: Opened | None = None
    engine: Engine = "postgres"
    dialect: Dialect = PostgresDialect()

    def __init__(self, url: str, *, is_writer: bool) -> None:
        self._url = url
        self._is_writer = is_writer
        self._is_in_transaction = False
        self._inserted, self._analyze_after = 0, _FEW_ROWS
        self.line = Line(url)
        self._connection = self._connect()

    @property
    def server(self) -> "Session":
        return self

    @property
    def in_transaction(self) -> bool:
        with self.line.lock:  # The status is "active" while a heartbeat runs.
            status = self._connection.info.transaction_status
        return status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def begin_write(self) -> None:
        self.execute("BEGIN")

    def begin_read(self) -> None:
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def convert_disk_errors(self) -> AbstractContextManager[None]:
        return nullcontext()  # `_raise_store_errors` converts these errors.

    def refuse_gone(self) -> None:
        """Do nothing: a database on a server has no local file."""

    def acknowledge(self) -> None:
        """Update the planner's statistics if tables have grown.

        Without this, statements that were planned for empty tables would scan whole tables. The
        server itself syncs each commit to disk.
        """
        if self._inserted > self._analyze_after:
            with suppress(StoreError):  # The commit has succeeded, even if this fails.
                self._analyze()

    def skip_reference_checks(self) -> AbstractContextManager[None]:
        return nullcontext()  # All references have indexes, so the checks are cheap.

    def execute(self, sql: str, parameters: Parameters = (), /) -> FoundRows:
        was_in_transaction = self._is_in_transaction
        if sql.startswith("BEGIN"):
            self._is_in_transaction = True
        elif sql in ("COMMIT", "ROLLBACK"):
            self._is_in_transaction = False
        try:
            with self._raise_store_errors():
                return self._run(sql, parameters)
        except ServerLost:
            self._is_in_transaction = False
            if self._is_writer or was_in_transaction:
                raise
            self._disconnect()
            self._connection = self._connect()
            self._is_in_transaction = sql.startswith("BEGIN")
            with self._raise_store_errors():
                return self._run(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> FoundRows:
        rows = [self._name_parameters(sql, row) for row in parameters]
        self._inserted += len(rows)
        with self._raise_store_errors():
            cursor = self._connection.cursor()
            cursor.executemany(with_parameters(sql), rows)
            return cast(FoundRows, cursor)

    def close(self) -> None:
        self.line.end()
        if self._is_writer and not self.in_transaction:
            self._unlock()
        self._disconnect()

    def _unlock(self) -> None:
        """Release the writer's lock before the connection is closed, because the server may notice
        a closed connection only later."""
        timer = threading.Timer(_UNLOCK_S, self.line.cut)
        timer.start()
        with suppress(StoreError, psycopg.Error), self._raise_store_errors():
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        timer.cancel()

    def _disconnect(self) -> None:
        self._connection.close()
        self.line.disconnect()

    def measure_size(self) -> int:
        row = self.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(row[0])

    def drop_pages(self) -> None:
        """Do nothing: the pages are in the server's memory."""

    def reclaim_space(self, whole: bool) -> None:
        for table in self._list_tables():
            self.execute(f"VACUUM {'(FULL)' if whole else ''} {table}")

    def _analyze(self) -> None:
        """Update the planner's statistics. In a large database, autovacuum updates them instead."""
        self._inserted = 0
        tables = self._list_tables()
        (row_count,) = self.execute(
            f"SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_class WHERE {_TABLES}"
        ).fetchone()
        if row_count <= _MANY_ROWS:
            self.execute(f"ANALYZE {', '.join(tables)}")
            self._analyze_after = max(_FEW_ROWS, _GROWTH * row_count)
        else:  # Autovacuum analyzes large tables in time.
            self._analyze_after = sys.maxsize

    def _list_tables(self) -> list[str]:
        rows = self.execute(f"SELECT relname FROM pg_class WHERE {_TABLES} ORDER BY relname")
        return [row[0] for row in rows.fetchall()]

    def restart_sequences(self) -> None:
        for table in ("source", "recipe", "document", "life", "watch", "telling"):
            self.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
            )

    def check_structure(self) -> Iterator[str]:
        schema_number = self.execute("SELECT max(number) FROM applied").fetchone()[0]
        if schema_number != SCHEMA_VERSION:
            yield f"an older hopsyncd wrote the database, with schema {schema_number}"
        invalid = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
        for (index,) in self.execute(invalid).fetchall():
            yield f"the index {index} is not valid"

    def wait(self, timeout_s: float) -> bool:
        with self._raise_store_errors():
            self._connection.execute(f"LISTEN {CHANNEL}")
            return any(True for _ in self._connection.notifies(timeout=timeout_s, stop_after=1))

    def lock_table(self, table: str) -> None:
        # If this process is suspended here, other sessions wait only for the lease.
        self.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{LEASE_S}s'")
        self.execute(f"SET LOCAL lock_timeout = '{3 * LEASE_S}s'")
        self.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    def elect(self) -> bool:
        self._is_writer = True  # so that `execute` does not reopen the session meanwhile
        lock = "SELECT pg_try_advisory_lock(?)"
        self._is_writer = bool(self.execute(lock, [_WRITER_LOCK]).fetchone()[0])
        if self._is_writer:
            self.execute("; ".join(_LEASE))
            self.line.beat(self._connection)
            _migrate(self, self._url)
        else:
            self.execute(_END_SILENT_WRITER, [_WRITER_LOCK])
        return self._is_writer

    def _run(self, sql: str, parameters: Parameters) -> FoundRows:
        values = self._name_parameters(sql, parameters)
        cursor = self._connection.cursor()
        if isinstance(values, dict):  # The server cannot infer the types of named parameters.
            cursor = psycopg.ClientCursor(self._connection)
        cursor.execute(with_parameters(sql), values)
        return cast(FoundRows, cursor)

    @staticmethod
    def _name_parameters(sql: str, parameters: Parameters) -> Any:
        if "?1" not in sql and "?2" not in sql:
            return parameters
        return {f"p{number}": value for number, value in enumerate(parameters, 1)}

    def _connect(self) -> "psycopg.Connection[Any]":
        try:
            connection = psycopg.connect(self._url, autocommit=True, **_CLIENT)
        except psycopg.OperationalError as error:
            raise self._lost_error(error) from None
        if connection.info.server_version < _OLDEST_SERVER * 10_000:
            connection.close()
            raise NotADatabase(
                f"Cannot use {format_place(self._url)}",
                f"the server runs PostgreSQL {connection.info.server_version // 10_000}",
                f"Use PostgreSQL {_OLDEST_SERVER} or later",
            )
        connection.adapters.register_loader("numeric", _Whole)
        self.line.connect(connection)
        try:
            with self._raise_store_errors():
                connection.execute("; ".join(_SETTINGS))
        except BaseException:
            connection.close()
            self.line.disconnect()
            raise
        return connection

    @contextmanager
    def _raise_store_errors(self) -> Iterator[None]:
        try:
            with self.line.in_use():
                yield
        except errors.UniqueViolation as error:
            if error.diag.constraint_name != "version_pkey":
                raise
            raise Deposed(
                f"Cannot write a version to {format_place(self._url)}",
                "another daemon has written a version with this number",
                "No action is needed. This daemon continues as a reader, and nothing is lost",
            ) from error
        except (errors.DiskFull, errors.OutOfMemory, errors.IoError) as error:
            raise DiskFailure(
                f"Cannot use the database {format_place(self._url)}",
                str(error.diag.message_primary or error).strip(),
                "Free some space on the server. Syncs then continue automatically",
            ) from error
        except errors.ProgramLimitExceeded as error:  # psycopg calls it an OperationalError
            raise StoreError(
                f"Cannot write to {format_place(self._url)}",
                str(error.diag.message_primary or error).strip(),
                "Report the error with the server's log. Nothing was written",
            ) from error
        except (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            errors.IdleInTransactionSessionTimeout,
        ) as error:
            raise self._lost_error(error) from error

    def _lost_error(self, error: Exception) -> ServerLost:
        return ServerLost(
            f"Cannot reach the database server of {format_place(self._url)}",
            " ".join(str(error).split()),
            "Start the server, or check the URL of the database, the password (PGPASSWORD, a"
            " service or passfile) and the server's log. Committed data is kept, and a daemon"
            " reconnects automatically",
        )


def _list_schema_files() -> dict[int, str]:
    """Return the file name of each migration by its number, such as 012_initial.sql."""
    names = sorted(file.name for file in _SCHEMA.iterdir() if file.name.endswith(".sql"))
    return {int(name.partition("_")[0]): name for name in names}


SCHEMA_VERSION = max(_list_schema_files())


def open_writing(url: str) -> Connection:
    """Open a session as the writer, and create or migrate the tables if needed.

    Waits a few seconds for another writer to end, because the server releases the lock of a killed
    writer with a short delay. Raises WriterBusy, ServerLost, NewerSchema or NotADatabase.
    """
    session = Session(url, is_writer=True)
    with _closed_on_error(session):
        end_s = time.monotonic() + _BUSY_S
        while not session.elect():
            if time.monotonic() > end_s:
                raise WriterBusy(
                    f"Cannot write to {format_place(url)}",
                    "another hopsyncd is already writing to the database",
                    "Stop the daemon that uses this database. It may run on another machine",
                )
            time.sleep(0.05)
    return session


def open_standing_by(url: str) -> Connection:
    """Open a session as the writer or, if there is a writer already, as a reader that can become
    the writer later.

    Raises the errors of `open_writing` except WriterBusy.
    """
    session = Session(url, is_writer=False)
    with _closed_on_error(session):
        end_s = time.monotonic() + _MIGRATION_S
        while not session.elect() and _read_schema_number(session, url) < SCHEMA_VERSION:
            if time.monotonic() > end_s:
                raise _older_schema_error(url, _read_schema_number(session, url))
            time.sleep(0.1)
    return session


@contextmanager
def _closed_on_error(session: Session) -> Iterator[None]:
    try:
        yield
    except BaseException:
        session.close()
        raise


def open_reading(url: str) -> Session:
    """Open a session that only reads. Raises ServerLost, NewerSchema, OlderSchema or
    NotADatabase."""
    session = Session(url, is_writer=False)
    with _closed_on_error(session):
        schema_number = _read_schema_number(session, url)
        if schema_number < SCHEMA_VERSION:
            raise _older_schema_error(url, schema_number)
    return session


def _older_schema_error(url: str, schema_number: int) -> OlderSchema:
    why, effect = "the database has none of hopsyncd's tables", "creates the tables"
    if schema_number:
        why, effect = f"the database has schema {schema_number}", "migrates the database"
    return OlderSchema(
        f"Cannot read {format_place(url)}", why, f"Start `hopsyncd serve`, which {effect}"
    )


def _read_schema_number(session: Session, url: str) -> int:
    """Return the number of the database's schema, or 0 if it has none."""
    if session.execute("SELECT to_regclass('hopsyncd.applied')").fetchone()[0] is None:
        return 0
    schema_number = int(session.execute("SELECT max(number) FROM applied").fetchone()[0])
    if schema_number > SCHEMA_VERSION:
        raise NewerSchema(
            f"Cannot open {format_place(url)}",
            f"schema {schema_number} is too new; this hopsyncd supports up to {SCHEMA_VERSION}",
            "Install the hopsyncd that wrote the database, or a later version. Nothing was changed",
        )
    return schema_number


def _migrate(session: Session, url: str) -> None:
    """Create or migrate the schema in one transaction. If the process is killed, the old schema
    stays."""
    session.begin_write()
    try:
        session.execute("SELECT pg_advisory_xact_lock(?)", [_SCHEMA_LOCK])
        schema_number = _read_schema_number(session, url)
        if not schema_number:
            session.execute("CREATE SCHEMA IF NOT EXISTS hopsyncd")
            session.execute("CREATE TABLE applied (number bigint PRIMARY KEY)")
        for number, name in _list_schema_files().items():
            if number > schema_number:
                script = _SCHEMA.joinpath(name).read_text()
                session.execute(script)
                session.execute("INSERT INTO applied VALUES (?)", [number])
        session.execute("COMMIT")
    except BaseException as error:
        if session.in_transaction:
            session.execute("ROLLBACK")
        if isinstance(error, psycopg.Error) and not isinstance(error, StoreError):
            raise NotADatabase(
                f"Cannot create hopsyncd's tables in {format_place(url)}",
                " ".join(str(error).split()),
                "Use a database in which this user may create a schema",
            ) from error
        raise


@lru_cache(512)
def with_parameters(sql: str) -> str:
    """Convert a statement to psycopg's placeholders. Numbered parameters are called p1, p2 and so
    on.

    In `sql`, numbered parameters must have one digit, and every question mark must be a parameter.

    >>> with_parameters("SELECT 1 FROM life WHERE born <= ?1 AND ?1 < died")
    'SELECT 1 FROM life WHERE born <= %(p1)s AND %(p1)s < died'
    >>> with_parameters("SELECT id FROM tag WHERE name = ?")
    'SELECT id FROM tag WHERE name = %s'
    """
    first, *parts = sql.replace("%", "%%").split("?")
    return first + "".join(
        f"%(p{part[0]})s{part[1:]}" if part[:1].isdigit() else f"%s{part}" for part in parts
    )
