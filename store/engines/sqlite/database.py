"""Opens SQLite databases: loads the library, sets pragmas, and checks and migrates the schema.

One process holds the writer lock, an flock on a file next to the database. Any number of readers
may open the database.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from store.contract import Connection, Dialect, Engine, Opened, Server
from store.engines.sqlite.acknowledged import (
    acknowledge,
    note_path,
    note_size,
    read_acknowledged,
    refuse_gone,
    refuse_lost_wal,
    refuse_older,
    stat_opened,
    versions_lost_error,
)
from store.engines.sqlite.checkpoints import MOST_FRAMES, Checkpointer
from store.engines.sqlite.extension import load_extension
from store.engines.sqlite.migrations import SCHEMA_VERSION, apply_migrations
from store.exceptions import (
    DiskFailure,
    NewerSchema,
    NotADatabase,
    OlderSchema,
    Unreadable,
    VersionsLost,
    WriterBusy,
)
from store.transactions import reserve_lost, transaction

if TYPE_CHECKING:
    import sqlite3 as sqlite
else:
    # Python's own module is often built without loadable extensions.
    try:
        from pysqlite3 import dbapi2 as sqlite
    except ImportError:
        import sqlite3 as sqlite

SqliteError = sqlite.Error
OperationalError = sqlite.OperationalError

APPLICATION_ID = 0x486F7073  # "Hops" in SQLite's header identifies our files, also to file(1).
# Before this version, two connections could damage a log that is being emptied.
_WAL_REPAIRED = (3, 51, 3)
_WRITER = "synchronous = FULL", "secure_delete = ON", "foreign_keys = ON", "cache_size = -32768"
# A commit itself runs a checkpoint only if the checkpoint thread is far behind.
_LOG = f"wal_autocheckpoint = {2 * MOST_FRAMES}"
_FULL, _IO_ERROR = 13, 10  # the result codes SQLITE_FULL and SQLITE_IOERR
_PAGES_KIB = 2000  # the size of the idle writer's page cache
_AGAIN = "syncs then continue automatically. Repeat any other request"


def to_disk_failure(error: BaseException, what: str) -> DiskFailure | None:
    """Convert an error to DiskFailure if the disk caused the error. Returns None for other errors.
    `what` says what failed."""
    # Errors from SQLite's backup API carry no code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == _FULL or str(error) == "database or disk is full":
        return DiskFailure(what, "the disk is full", f"Free some space; {_AGAIN}")
    if code == _IO_ERROR or str(error) == "disk I/O error":
        name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
        return DiskFailure(
            what,
            f"the disk could not be read or written ({name})",
            f"Check for a quota, a file size limit or a failing disk; {_AGAIN}",
        )
    return None


class SqliteDialect:
    """The SQL of SQLite (see `store.contract.Dialect`)."""

    first_join = "CROSS JOIN"
    max_path_bytes = None
    unindexed = "NOT INDEXED"

    @staticmethod
    def select_ids(parameter: str = "?") -> str:
        return f"(SELECT value FROM json_each({parameter}))"

    @staticmethod
    def select_names(parameter: str = "?") -> str:
        return f"(SELECT value FROM json_each({parameter}))"

    @staticmethod
    def list_rows(parameter: str, alias: str) -> str:
        return f"json_each({parameter}) AS {alias}"

    @staticmethod
    def force_index(index: str) -> str:
        return f"INDEXED BY {index}"

    @staticmethod
    def match_wrong_types(*columns: str) -> str:
        types = " || ".join(f"typeof({column})" for column in columns)
        return f"{types} <> '{'integer' * len(columns)}'"


class FileConnection(sqlite.Connection):
    """A connection to a database file. The writer's connection has `opened` set, and acknowledges
    each commit on disk."""

    opened: Opened | None = None
    server: Server | None = None
    engine: Engine = "sqlite"
    dialect: Dialect = SqliteDialect()
    checkpointer: Checkpointer | None = None

    def measure_size(self) -> int:
        pages, size = (
            self.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        return int(pages * size)

    def drop_pages(self) -> None:
        cache_size = self.execute("PRAGMA cache_size").fetchone()[0]
        for size in (-_PAGES_KIB, cache_size):
            self.execute(f"PRAGMA cache_size = {size}")

    def restart_sequences(self) -> None:
        """Do nothing: SQLite chooses new ids from the existing rows."""

    def begin_write(self) -> None:
        self.execute("BEGIN IMMEDIATE")  # a deferred transaction can fail at its first write

    def begin_read(self) -> None:
        self.execute("BEGIN")

    def refuse_gone(self) -> None:
        refuse_gone(self)

    def acknowledge(self) -> None:
        refuse_gone(self)
        note_size(self)
        acknowledge(self)
        if self.checkpointer:
            self.checkpointer.start_if_due()

    def close(self) -> None:
        if self.checkpointer:
            self.checkpointer.wait()
        super().close()

    @contextmanager
    def convert_disk_errors(self) -> Iterator[None]:
        try:
            yield
        except SqliteError as error:
            file = self.execute("PRAGMA database_list").fetchone()[2]
            failure = to_disk_failure(error, f"Cannot use the database {file}")
            if failure is None:
                raise
            raise failure from error

    @contextmanager
    def skip_reference_checks(self) -> Iterator[None]:
        self.execute("PRAGMA foreign_keys = OFF")
        try:
            yield
        finally:
            self.execute("PRAGMA foreign_keys = ON")


@contextmanager
def unreadable_file(database: object) -> Iterator[None]:
    """Convert SQLite's errors in the block to Unreadable."""
    try:
        yield
    except SqliteError as error:
        raise Unreadable(
            f"Cannot read the database {database}",
            str(error),
            "Run `hopsyncd check --deep` to list the damage",
        ) from error


@dataclass(frozen=True, slots=True)
class Library:
    """The SQLite library in use. `vec` is the version of sqlite-vec, or empty if sqlite-vec cannot
    be loaded."""

    module: str
    sqlite: str
    vec: str
    fts5: bool

    @property
    def keeps_wal_whole(self) -> bool:
        return tuple(int(part) for part in self.sqlite.split(".")) >= _WAL_REPAIRED


def describe_library() -> Library:
    """Return the version and extensions of the SQLite library in use."""
    with closing(open_memory_database()) as plain:
        version = plain.execute("SELECT sqlite_version()").fetchone()[0]
        options = {name for (name,) in plain.execute("PRAGMA compile_options")}
    module = sqlite.__name__.partition(".")[0]
    return Library(module, version, _read_vec_version(), "ENABLE_FTS5" in options)


def _read_vec_version() -> str:
    try:
        with closing(open_vector_functions()) as connection:
            return str(connection.execute("SELECT vec_version()").fetchone()[0])
    except (SqliteError, AttributeError):
        return ""


def open_memory_database() -> FileConnection:
    """Open an empty in-memory database without extensions."""
    return sqlite.connect(":memory:", isolation_level=None, factory=FileConnection)


def open_fresh_database() -> FileConnection:
    """Open an empty in-memory database with the current schema."""
    connection = open_memory_database()
    _migrate(connection)
    return connection


def open_vector_functions() -> FileConnection:
    """Open an empty in-memory database with sqlite-vec's functions."""
    connection = open_memory_database()
    load_extension(connection)
    return connection


def read_objects(connection: Connection) -> dict[str, str]:
    """Return the SQL of every table, index and view, by name."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def _explain_open_error(path: Path, error: OperationalError) -> str:
    if path.is_dir():
        return "the path is a folder"
    return str(error) if path.exists() else "the file does not exist"


def open_file(path: Path, mode: str = "rw") -> FileConnection:
    """Open an existing file without checking, configuring or migrating the database."""
    try:
        connection = sqlite.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=10.0,
            check_same_thread=False,
            factory=FileConnection,
        )
    except OperationalError as error:
        raise NotADatabase(
            f"Cannot open {path}",
            _explain_open_error(path, error),
            "Check the path, and that you may read and write the file. If the file is lost, restore"
            " a backup",
        ) from error
    return connection


def _refuse_foreign(connection: Connection, path: Path) -> None:
    """Raise an error unless the file is empty or has a schema that this hopsyncd supports."""
    try:
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        schema_version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # SQLite's message may quote a damaged schema, in bytes that do not decode.
    except (sqlite.DatabaseError, UnicodeDecodeError) as error:
        refused = NotADatabase(
            f"Cannot open {path}", str(error), "Restore a backup, or move the file away"
        )
        raise to_disk_failure(error, f"Cannot open {path}") or refused from error
    if application_id != APPLICATION_ID and tables:
        raise NotADatabase(
            f"Cannot open {path}",
            "the file is another program's SQLite database",
            "Choose another file, or set daemon.data_dir to another folder",
        )
    if schema_version > SCHEMA_VERSION:
        raise NewerSchema(
            f"Cannot open {path}",
            f"schema {schema_version} is too new; this hopsyncd supports up to {SCHEMA_VERSION}",
            "Install the hopsyncd that wrote the database, or a later version. Nothing was changed",
        )


def _refuse_older(connection: Connection, path: Path) -> None:
    schema_version = connection.execute("PRAGMA user_version").fetchone()[0]
    if 0 < schema_version < SCHEMA_VERSION:
        raise OlderSchema(
            f"Cannot read {path}",
            f"an older hopsyncd wrote the database, with schema {schema_version}",
            "Start `hopsyncd serve`, which migrates the database",
        )


def _migrate(connection: FileConnection) -> None:
    """Migrate the schema in one transaction. If the process is killed, the old schema stays."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
        return
    # A script that replaces a table would delete the rows that refer to it.
    with connection.skip_reference_checks(), transaction(connection):
        apply_migrations(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _refuse_loss(path: Path) -> None:
    """Raise VersionsLost if the file and its log lack an acknowledged change.

    The check is skipped if this process already has the database open: closing any descriptor of
    the log's index would drop all of SQLite's locks on it in this process. Another process would
    then consider the index unused, and truncate it while it is still in use.
    """
    if _has_open(path.with_name(path.name + "-shm")):
        return
    # Read this before the database, because a writer may be active.
    acknowledged = read_acknowledged(path)
    refuse_lost_wal(path)
    if acknowledged is None:
        return
    if not path.exists():
        if acknowledged.version:
            raise versions_lost_error(
                path,
                f"version {acknowledged.version} was committed, but the database file is missing",
            )
        return
    # Read-only: on closing, a writer would checkpoint the readable part of a damaged log.
    with closing(open_file(path, "ro")) as connection:
        _refuse_foreign(connection, path)
        refuse_older(connection, path, acknowledged)


def find_loss(path: Path) -> str | None:
    """Describe the acknowledged change that the database lacks, or return None if no change is
    missing."""
    try:
        _refuse_loss(path)
    except VersionsLost as error:
        return error.why
    return None


def _has_open(path: Path) -> bool:
    """Whether this process has the file open."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):  # One entry is the descriptor of this listing.
            if os.path.samestat(os.fstat(int(descriptor.name)), status):
                return True
    return False


def open_writer(path: Path, *, accept_loss: bool = False) -> FileConnection:
    """Open the database as the writer, and create or migrate it if needed. Raises NewerSchema,
    NotADatabase or DiskFailure.

    Commits are synced to disk, so every acknowledged change survives a power cut. If an
    acknowledged change is missing, VersionsLost is raised. With `accept_loss`, the database is
    opened anyway, and the lost version numbers are never used again.
    """
    acknowledged = read_acknowledged(path)
    if not accept_loss:
        _refuse_loss(path)
    with _folder_of(path):
        path.touch(0o600)
    connection = open_file(path)
    try:
        _refuse_foreign(connection, path)
        with connection.convert_disk_errors():
            if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
                # This takes effect only while the file is empty.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise DiskFailure(
                    f"Cannot open {path}",
                    "the database's log (-wal) cannot be created",
                    "Free disk space or check the disk. The data folder must be on a local disk",
                )
        for setting in (*_WRITER, _LOG):
            connection.execute(f"PRAGMA {setting}")
        _migrate(connection)
        if accept_loss and acknowledged:
            with transaction(connection):
                reserve_lost(connection, acknowledged.version)
            note_path(path).unlink()
        connection.opened = stat_opened(path)
        connection.acknowledge()
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.checkpointer = Checkpointer(
            path, path.with_name(path.name + "-wal"), page_bytes, partial(_checkpoint, path)
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _checkpoint(path: Path) -> None:
    """Copy the log into the database file. If this fails, a later commit tries again."""
    with suppress(SqliteError, NotADatabase), closing(open_file(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def open_reader(path: Path) -> FileConnection:
    """Open the database for queries only. Raises NewerSchema, OlderSchema, NotADatabase or
    DiskFailure.

    The file is opened for writing, because a reader marks its position in the WAL's shared memory.
    The pragma query_only prevents every other write, and only the writer runs checkpoints.
    """
    _refuse_loss(path)
    connection = open_file(path)
    try:
        _refuse_foreign(connection, path)
        _refuse_older(connection, path)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _folder_of(path: Path) -> Iterator[None]:
    """Convert errors about the database's folder in the block to DiskFailure."""
    try:
        yield
    except OSError as error:
        raise DiskFailure(
            f"Cannot write to {path.parent}",
            f"{Path(error.filename or path).name}: {(error.strerror or str(error)).lower()}",
            "Give this user write permission on the folder, or set daemon.data_dir or"
            " HOPSYNCD_HOME to another folder",
        ) from error


@contextmanager
def hold_writer_lock(path: Path) -> Iterator[BinaryIO]:
    """Hold the writer lock of the database at `path`. Raises WriterBusy."""
    lock_path = path.with_name(path.name + ".lock")
    with _folder_of(path):
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise WriterBusy(
                f"Cannot write to {path}",
                "another hopsyncd process is writing to the database",
                "Stop that process. A second daemon needs another folder as its HOPSYNCD_HOME",
            ) from error
        yield lock
