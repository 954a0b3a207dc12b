"""A durable note, next to the database, of the last acknowledged change.

If the log (-wal) is truncated, damaged, deleted or swapped, SQLite assumes a crash and continues
without the log's content. The note records how far the database had come at the last
acknowledgement. A database that is behind the note is refused.

Each transaction counts itself in the database. After its COMMIT and before the acknowledgement, the
count and the newest version are written to the note and synced. So the database is never behind the
note, and after a crash between the two it is one transaction ahead.

The note has two slots that are overwritten in turn, so a torn write leaves the other slot. Its size
is fixed, so a full disk does not stop it. Its name does not begin with the database's name, so a
program that deletes or moves `NAME.db-*` leaves it alone.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from store.contract import Connection
from store.counters import count_of, version_digest
from store.exceptions import DiskFailure, NotAcknowledged, VersionsLost

_SLOT_BYTES = 4096  # each slot fills a page of its own on any disk


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How far a database has come: transactions, the newest version (0: none) and its digest."""

    writes: int
    version: int
    digest: str


NOTHING = Acknowledged(0, 0, "")


def note_path(database: Path) -> Path:
    return database.with_suffix(".head")


def read_acknowledged(database: Path) -> Acknowledged | None:
    """Read the note; None if it is missing or damaged. Raises DiskFailure."""
    note = note_path(database)
    try:
        data = note.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiskFailure(
            f"Cannot read {note}",
            (error.strerror or str(error)).lower(),
            "Check that you may read it, and look for a failing disk",
        ) from error
    slots = [_decode(data[start : start + _SLOT_BYTES]) for start in (0, _SLOT_BYTES)]
    return max((slot for slot in slots if slot), key=lambda slot: slot.writes, default=None)


def state_of(connection: Connection) -> Acknowledged:
    """How far the database has come."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'version'").fetchone():
        return NOTHING
    newest = connection.execute("SELECT max(id) FROM version").fetchone()[0] or 0
    return Acknowledged(count_of(connection, "writes"), newest, version_digest(connection, newest))


def acknowledge(connection: Connection) -> None:
    """Write how far the writer's database has come. Raises NotAcknowledged."""
    if connection.opened is None:
        return
    note = note_path(connection.opened.database)
    state = state_of(connection)
    try:
        if not _overwrite(note, state):
            _replace(note, state)
    except OSError as error:
        raise NotAcknowledged(
            f"Cannot write {note}, which notes how far the database has come",
            (error.strerror or str(error)).lower(),
            "Nothing is acknowledged until it can be written: check for a full or failing disk, and"
            " that you may write there",
        ) from error


def refuse_older(connection: Connection, database: Path, known: Acknowledged) -> None:
    """Raise VersionsLost if the database is behind what was acknowledged."""
    state = state_of(connection)
    if state.writes >= known.writes and version_digest(connection, known.version) == known.digest:
        return
    if state.version < known.version:
        why = f"version {known.version} was acknowledged, but it ends at version {state.version}"
    elif state.writes >= known.writes:
        why = f"its version {known.version} is not the acknowledged one"
    else:
        why = (
            f"it lacks changes acknowledged at version {known.version} (a tag, a purge, a pause,"
            " a scan)"
        )
    raise versions_lost_error(database, why)


def versions_lost_error(database: Path, why: str) -> VersionsLost:
    """The error for a database that lacks something acknowledged."""
    return VersionsLost(
        f"Cannot open {database}",
        f"something acknowledged is lost: {why}",
        f"Put {database.name} and {database.name}-wal back as they were; or restore a backup, then"
        " run `hopsyncd recover`, which continues from there and reuses no version number",
    )


def _encode(state: Acknowledged) -> bytes:
    body = json.dumps(asdict(state), sort_keys=True).encode()
    return blake2b(body, digest_size=16).hexdigest().encode() + b" " + body + b"\n"


def _decode(slot: bytes) -> Acknowledged | None:
    line = slot.partition(b"\n")[0]
    with suppress(ValueError, TypeError):
        state = Acknowledged(**json.loads(line.partition(b" ")[2]))
        if _encode(state) == line + b"\n":
            return state
    return None


def _overwrite(note: Path, state: Acknowledged) -> bool:
    """Write the slot whose turn it is; False if there is no intact note."""
    try:
        descriptor = os.open(note, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        if os.fstat(descriptor).st_size != 2 * _SLOT_BYTES:
            return False
        os.pwrite(descriptor, _encode(state), state.writes % 2 * _SLOT_BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def _replace(note: Path, state: Acknowledged) -> None:
    part = note.with_name(f".{note.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, bytes(2 * _SLOT_BYTES), 0)
        os.pwrite(descriptor, _encode(state), state.writes % 2 * _SLOT_BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.replace(note)
    folder = os.open(note.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
