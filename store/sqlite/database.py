"""Opening the database: one SQLite library, its extension, its pragmas, its schema.

One process holds the writer's place (an flock beside the file); readers come and go.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import sqlite_vec
from sqlite_utils import Database

from store.exceptions import (
    DiskFailure,
    NewerSchema,
    NotADatabase,
    OlderSchema,
    VersionsLost,
    WriterBusy,
)
from store.sqlite.acknowledged import (
    acknowledge,
    count_write,
    lost,
    note_path,
    noted,
    refuse_older,
    reserve_lost,
)
from store.sqlite.migrations import MIGRATIONS, SCHEMA_VERSION
from store.sqlite.presence import Opened, note_size, opened_now, refuse_gone
from store.sqlite.wal import refuse_lost_wal

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

_FULL, _IO_ERROR = 13, 10  # SQLite's primary result codes
_AGAIN = "syncs go on by themselves, anything else must be asked for again"


class Connection(sqlite.Connection):
    """A connection; the writer's has `opened`, and each of its commits is noted beside the file."""

    opened: Opened | None = None


APPLICATION_ID = 0x486F7073  # "Hops" in SQLite's header, so that file(1) and we know our own


def memory_database() -> Connection:
    """An empty database in memory, without extensions."""
    return sqlite.connect(":memory:", isolation_level=None, factory=Connection)


def fresh_database() -> Connection:
    """A database in memory with the present schema, to compare others with."""
    connection = memory_database()
    _load_extension(connection)
    _migrate(connection)
    return connection


def objects_of(connection: Connection) -> dict[str, str]:
    """The SQL of every table, index and view that the database has, by name."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def _connect(path: Path, mode: str = "rw") -> Connection:
    try:
        connection = sqlite.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=10.0,
            check_same_thread=False,
            factory=Connection,
        )
    except OperationalError as error:
        raise NotADatabase(
            f"Cannot open {path}",
            str(error) if path.exists() else "it is not there",
            "See that the file is there and that you may read and write it",
        ) from error
    _load_extension(connection)
    return connection


def _load_extension(connection: Connection) -> None:
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.enable_load_extension(False)


def open_file(path: Path) -> Connection:
    """Open an existing file as it is: nothing is checked, set or migrated."""
    return _connect(path)


def _refuse_foreign(connection: Connection, path: Path) -> None:
    """Raise unless the file is empty or ours, and of a schema this program knows."""
    try:
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        schema_version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # SQLite's message may quote a damaged schema, in bytes that are no text.
    except (sqlite.DatabaseError, UnicodeDecodeError) as error:
        refused = NotADatabase(
            f"Cannot open {path}", str(error), "Restore it from a backup, or move it away"
        )
        raise disk_failure(error, f"Cannot open {path}") or refused from error
    if application_id != APPLICATION_ID and tables:
        raise NotADatabase(
            f"Cannot open {path}",
            "it is an SQLite database of another program",
            "Choose another data_dir in the configuration",
        )
    if schema_version > SCHEMA_VERSION:
        raise NewerSchema(
            f"Cannot open {path}",
            f"its schema is {schema_version} and this hopsyncd knows up to {SCHEMA_VERSION}",
            "Install the hopsyncd that wrote it, or a newer one; nothing was changed",
        )


def _refuse_older(connection: Connection, path: Path) -> None:
    schema_version = connection.execute("PRAGMA user_version").fetchone()[0]
    if 0 < schema_version < SCHEMA_VERSION:
        raise OlderSchema(
            f"Cannot read {path}",
            f"its schema is {schema_version}, that of an older hopsyncd",
            "`hopsyncd serve` brings it up to date",
        )


def _migrate(connection: Connection) -> None:
    """Bring the schema up to date: one transaction, so that a kill leaves the old or the new."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
        return
    with transaction(connection):
        MIGRATIONS.apply(Database(connection))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def disk_failure(error: BaseException, what: str) -> DiskFailure | None:
    """What to tell a user of an error that came of the disk; None for any other error."""
    # The errors of a backup carry no code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == _FULL or str(error) == "database or disk is full":
        return DiskFailure(what, "the disk is full", f"Make room there; {_AGAIN}")
    if code == _IO_ERROR or str(error) == "disk I/O error":
        name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
        return DiskFailure(
            what,
            f"the disk could not be read or written ({name})",
            f"Look for a quota, a limit on file sizes or a failing disk; {_AGAIN}",
        )
    return None


@contextmanager
def disk_failures(connection: Connection) -> Iterator[None]:
    """Let what SQLite says of the disk come out as a DiskFailure."""
    try:
        yield
    except SqliteError as error:
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        told = disk_failure(error, f"Cannot use the database {file}")
        if told is None:
            raise
        raise told from error


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """One write transaction, begun IMMEDIATE: a deferred one can fail when it first writes.

    When it ends without an error, what it wrote may be acknowledged. Raises DiskFailure,
    NotAcknowledged or DatabaseGone; the latter two may leave it committed.
    """
    refuse_gone(connection)
    with disk_failures(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            count_write(connection)
            connection.execute("COMMIT")
        except BaseException:
            # Some errors have rolled back already; others not, even those of BEGIN and COMMIT.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    confirm(connection)


def confirm(connection: Connection) -> None:
    """Note that the writer's database is as it is, before anyone is told so or reads it.

    Raises DatabaseGone or NotAcknowledged.
    """
    refuse_gone(connection)
    note_size(connection)
    acknowledge(connection)


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """One read transaction: all reads inside see the same state. Raises DiskFailure."""
    with disk_failures(connection):
        try:
            connection.execute("BEGIN")
            yield
        finally:
            if connection.in_transaction:  # an error of the disk has ended it
                connection.execute("COMMIT")


def _judge(path: Path) -> None:
    """Raise VersionsLost if something acknowledged is not there, in the file or in its log.

    Not where this process has it open already. Closing any descriptor of the log's index ends all
    locks that SQLite has on it in this process. The next process would take the index for nobody's
    and truncate it, under those who use it.
    """
    if _has_open(path.with_name(path.name + "-shm")):
        return
    known = noted(path)  # before the database: a writer may go on meanwhile
    refuse_lost_wal(path)
    if known is None:
        return
    if not path.exists():
        if known.version:
            raise lost(path, f"version {known.version} was acknowledged, and the file is not there")
        return
    # Read only: a writer that closes takes what it has read of a damaged log for the whole of it.
    with closing(_connect(path, "ro")) as connection:
        _refuse_foreign(connection, path)
        refuse_older(connection, path, known)


def lost_from(path: Path) -> str | None:
    """What the database lacks of what was acknowledged, in words; None if it lacks nothing."""
    try:
        _judge(path)
    except VersionsLost as error:
        return error.why
    return None


def _has_open(path: Path) -> bool:
    """Whether this process has the file open."""
    try:
        wanted = path.stat()
    except FileNotFoundError:
        return False
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself
            if os.path.samestat(os.fstat(int(descriptor.name)), wanted):
                return True
    return False


def open_writer(path: Path, *, accept_loss: bool = False) -> Connection:
    """Open, creating or migrating as needed. Raises NewerSchema, NotADatabase or DiskFailure.

    Commits are synced to disk: what a caller was told is stored survives a power cut. Raises
    VersionsLost where it did not, unless that is accepted: then the numbers of what was lost are
    not used again.
    """
    known = noted(path)
    if not accept_loss:
        _judge(path)
    with _folder_of(path):
        path.touch(0o600)
    connection = _connect(path)
    try:
        _refuse_foreign(connection, path)
        with disk_failures(connection):
            if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # too late once it is filled
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise DiskFailure(
                    f"Cannot open {path}",
                    "its log (-wal) cannot be made",
                    "Look for a full or failing disk; a folder on another machine will not do",
                )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection)
        if accept_loss and known:
            with transaction(connection):
                reserve_lost(connection, known)
            note_path(path).unlink()
        connection.opened = opened_now(path)
        confirm(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> Connection:
    """Open for queries only. Raises NewerSchema, OlderSchema, NotADatabase or DiskFailure.

    The file is opened writable because a reader keeps its place in the WAL's shared memory;
    query_only refuses every write, and the checkpoints are left to the writer.
    """
    _judge(path)
    connection = _connect(path)
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
    """Let what hinders from writing beside the database come out as a DiskFailure."""
    try:
        yield
    except OSError as error:
        raise DiskFailure(
            f"Cannot write to {path.parent}",
            f"{Path(error.filename or path).name}: {(error.strerror or str(error)).lower()}",
            "Give this user the right to write there, or set daemon.data_dir, or HOPSYNCD_HOME, to"
            " a folder where it may",
        ) from error


@contextmanager
def writer_place(path: Path) -> Iterator[BinaryIO]:
    """Hold the single writer's place for the database at `path`. Raises WriterBusy."""
    lock_path = path.with_name(path.name + ".lock")
    with _folder_of(path):
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise WriterBusy(
                f"Cannot write to {path}",
                "another hopsyncd process holds it",
                "Stop that process, or use another HOPSYNCD_HOME",
            ) from error
        yield lock
