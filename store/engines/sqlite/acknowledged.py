"""Refuses a database that lacks acknowledged changes. The daemon confirms a change to clients only
after its acknowledgement. There are three checks.

**A note** next to the database records the database's state at the last acknowledgement. If the log
(-wal) is truncated, damaged, deleted or swapped, SQLite assumes a crash and continues without the
log's content. A database that is older than its note is refused.

Each transaction increments a counter in the database. After its COMMIT and before the
acknowledgement, the counter and the newest version are written to the note and synced. So the
database is never older than the note. After a crash between the two steps, the database is one
transaction newer.

The note has two slots that are overwritten in turn, so a torn write leaves the other slot intact.
The note has a fixed size, so it can be written on a full disk. The note's name does not match
`NAME.db-*`, so a program that deletes or moves those files leaves the note alone.

**The files** that the writer has open must still be at their paths (`refuse_gone`). SQLite keeps
writing to deleted or replaced files: every commit succeeds, and all commits are lost at the next
start.

**The log** is compared with its index (-shm), which a killed process leaves behind and which counts
the committed frames (`refuse_lost_wal`). If the index is missing too, or belongs to another log,
only the note is compared. The comparison raises no false alarms. When the last connection closes,
SQLite deletes the index before the log. The index counts a frame only after the frame was synced to
the log with the same salt, so after a power cut it may count too few frames, never too many.
"""

import json
import os
import struct
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from store.contract import Connection, Opened
from store.exceptions import DatabaseGone, DiskFailure, NotAcknowledged, VersionsLost
from store.files import replace_file
from store.transactions import compute_version_digest, count_of

_SLOT_BYTES = 4096  # so that each slot is in a separate disk page


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledged state: the number of transactions, the newest version (0: none) and its
    digest."""

    writes: int
    version: int
    digest: str


NOTHING = Acknowledged(0, 0, "")


def note_path(database: Path) -> Path:
    return database.with_suffix(".head")


def read_acknowledged(database: Path) -> Acknowledged | None:
    """Read the note of a database. Returns None if the note is missing or damaged. Raises
    DiskFailure."""
    note = note_path(database)
    try:
        data = note.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiskFailure(
            f"Cannot read {note}",
            (error.strerror or str(error)).lower(),
            "Check the file's permissions and the disk",
        ) from error
    slots = [_decode(data[start : start + _SLOT_BYTES]) for start in (0, _SLOT_BYTES)]
    return max((slot for slot in slots if slot), key=lambda slot: slot.writes, default=None)


def read_state(connection: Connection) -> Acknowledged:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'version'").fetchone():
        return NOTHING
    newest = connection.execute("SELECT max(id) FROM version").fetchone()[0] or 0
    return Acknowledged(
        count_of(connection, "writes"), newest, compute_version_digest(connection, newest)
    )


def acknowledge(connection: Connection) -> None:
    """Write the state of the writer's database to the note. Raises NotAcknowledged."""
    if connection.opened is None:
        return
    note = note_path(connection.opened.database)
    state = read_state(connection)
    try:
        if not _overwrite(note, state):
            _replace(note, state)
    except OSError as error:
        raise NotAcknowledged(
            f"Cannot write {note}, the record of the last acknowledged change",
            (error.strerror or str(error)).lower(),
            "Free disk space, and check the disk and the folder's permissions. Until then no"
            " change is acknowledged",
        ) from error


def refuse_older(connection: Connection, database: Path, recorded: Acknowledged) -> None:
    """Raise VersionsLost if the database is older than the acknowledged state."""
    state = read_state(connection)
    if (
        state.writes >= recorded.writes
        and compute_version_digest(connection, recorded.version) == recorded.digest
    ):
        return
    if state.version < recorded.version:
        why = (
            f"version {recorded.version} was acknowledged, but the database ends at version"
            f" {state.version}"
        )
    elif state.writes >= recorded.writes:
        why = f"version {recorded.version} differs from the acknowledged version {recorded.version}"
    else:
        why = (
            f"changes acknowledged at version {recorded.version} are missing (a tag, a purge,"
            " a pause, a scan)"
        )
    raise versions_lost_error(database, why)


def versions_lost_error(database: Path, why: str) -> VersionsLost:
    """Create the error for a database that lacks an acknowledged change."""
    return VersionsLost(
        f"Cannot open {database}",
        f"committed data is missing: {why}",
        f"Put the original {database.name} and {database.name}-wal back, or run"
        " `hopsyncd backup restore latest`, or run `hopsyncd recover` to continue without the"
        " missing data",
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
    """Write the state to the older slot of the note. Returns False if there is no valid note."""
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
    slots, encoded = bytearray(2 * _SLOT_BYTES), _encode(state)
    start = state.writes % 2 * _SLOT_BYTES
    slots[start : start + len(encoded)] = encoded
    replace_file(note, bytes(slots))


def stat_opened(database: Path) -> Opened:
    file, log = database.stat(), _get_log_path(database).stat()
    return Opened(database, (file.st_dev, file.st_ino), (log.st_dev, log.st_ino))


def note_size(connection: Connection) -> None:
    """Record the smallest valid size of the writer's database file. A checkpoint may truncate the
    file to this size."""
    if connection.opened:
        pages, page_bytes = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "page_size")
        )
        stored_bytes = connection.opened.database.stat().st_size
        connection.opened.least_bytes = min(stored_bytes, pages * page_bytes)


def expect_shrinking(connection: Connection) -> None:
    """Allow the writer's database to shrink until the next `note_size`."""
    if connection.opened:
        connection.opened.least_bytes = 0


def refuse_gone(connection: Connection) -> None:
    """Raise DatabaseGone unless the writer's files are still at their paths. Thread-safe."""
    if connection.opened and (why := _describe_fault(connection.opened)):
        raise database_gone_error(connection.opened.database, why)


def database_gone_error(database: Path, why: str) -> DatabaseGone:
    """Create the error for a writer whose database file was deleted, replaced or truncated."""
    return DatabaseGone(
        f"Cannot use the database {database}",
        why,
        "Nothing more is stored. Stop the daemon, run `hopsyncd backup restore latest` or put the"
        " file back, and start the daemon again",
    )


def _describe_fault(opened: Opened) -> str | None:
    if opened.overwritten:
        return opened.overwritten
    try:
        file = opened.database.stat()
        if (file.st_dev, file.st_ino) != opened.file:
            return "another file has replaced the database file"
        if file.st_size < opened.least_bytes:
            return f"the database file was truncated to {file.st_size} bytes"
        log = _get_log_path(opened.database).stat()
        if (log.st_dev, log.st_ino) != opened.log:
            return "another file has replaced the database's log (-wal)"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} was deleted or moved away"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _get_log_path(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


# SQLite's file format: https://sqlite.org/fileformat.html#walformat and walformat.html.
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INDEX_HEADER = 48
_MAGIC_LITTLE, _MAGIC_BIG = 0x377F0682, 0x377F0683
_FRAMES_AT_ONCE = 1024

ByteOrder = Literal["<", ">"]

_NATIVE: ByteOrder = "<" if sys.byteorder == "little" else ">"


@dataclass(frozen=True, slots=True)
class _Index:
    """The index of the log (-shm): the log's salt, and the number of committed frames."""

    salt: bytes
    committed: int


def refuse_lost_wal(path: Path) -> None:
    """Raise VersionsLost if the log of the database at `path` lacks committed frames.

    Raises DiskFailure if the log cannot be read.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not path.exists() or not index.exists():
        return
    if not log.exists():
        raise versions_lost_error(path, f"{log.name} is missing although {index.name} exists")
    try:
        why = _describe_missing_frames(log, index)
    except OSError as error:
        raise DiskFailure(
            f"Cannot read {log} and {index.name}",
            (error.strerror or str(error)).lower(),
            "Check the permissions of both files, and the disk",
        ) from error
    if why:
        raise versions_lost_error(path, f"{log.name} {why}")


def _describe_missing_frames(log: Path, index: Path) -> str | None:
    """Describe the committed frames that the log lacks. Returns None if the log has all of them, or
    if the index belongs to another log.

    A writer may restart the log during the check, but writes a new salt to the index first. So the
    result is valid if the index still has the same salt at the end.
    """
    while True:
        counted = _read_index(index)
        why = _find_damage(log, counted) if counted else None
        after = _read_index(index)
        if why is None or (after and counted and after.salt == counted.salt):
            return why


def _read_index(index: Path) -> _Index | None:
    """Read the index, or return None if the index is damaged or being written. SQLite ignores such
    an index too."""
    with index.open("rb") as file:
        first, second = file.read(_INDEX_HEADER), file.read(_INDEX_HEADER)
    if len(second) < _INDEX_HEADER or first != second:
        return None
    words = np.frombuffer(first, dtype=f"{_NATIVE}u4")
    if _compute_checksums(words[:10], (0, 0)) != [tuple(words[10:].tolist())]:
        return None
    return _Index(first[32:40], struct.unpack_from(f"{_NATIVE}I", first, 16)[0])


def _find_damage(log: Path, index: _Index) -> str | None:
    with log.open("rb") as file:
        header = file.read(_WAL_HEADER)
        if len(header) < _WAL_HEADER or header[16:24] != index.salt:
            return None
        magic, _, page_bytes = struct.unpack_from(">III", header)
        order: ByteOrder = ">" if magic == _MAGIC_BIG else "<"
        checksum = struct.unpack_from(">II", header, 24)
        words = np.frombuffer(header[:24], dtype=f"{order}u4")
        if magic not in (_MAGIC_LITTLE, _MAGIC_BIG) or _compute_checksums(words, (0, 0)) != [
            checksum
        ]:
            return "has a damaged header"
        for first in range(0, index.committed, _FRAMES_AT_ONCE):
            frame_count = min(_FRAMES_AT_ONCE, index.committed - first)
            frames = _read_frames(file, frame_count, _FRAME_HEADER + page_bytes)
            sound, checksum = _count_sound_frames(frames, index.salt, checksum, order)
            if sound < len(frames):
                return (
                    f"is damaged at frame {first + sound + 1} of {index.committed} committed frames"
                )
            if sound < frame_count:
                return f"has {first + sound} of {index.committed} committed frames"
    return None


def _read_frames(log: BinaryIO, count: int, frame_bytes: int) -> NDArray[np.uint8]:
    """Read the next `count` frames of the log, one per row, or fewer at the end of the log."""
    data = log.read(count * frame_bytes)
    frame_count = len(data) // frame_bytes
    return np.frombuffer(data, dtype=np.uint8, count=frame_count * frame_bytes).reshape(
        frame_count, frame_bytes
    )


def _count_sound_frames(
    frames: NDArray[np.uint8], salt: bytes, before: tuple[int, int], order: ByteOrder
) -> tuple[int, tuple[int, int]]:
    """Count the intact frames before the first damaged frame. Also returns the stored checksum of
    the last frame.

    The checksum of each frame is computed from the checksum of the previous frame. `before` is the
    checksum of the frame before these frames.
    """
    if not len(frames):
        return 0, before
    stored = np.ascontiguousarray(frames[:, 16:24]).view(">u4").astype(np.uint32)
    seeds = np.vstack([np.array([before], dtype=np.uint32), stored[:-1]])
    content = np.ascontiguousarray(np.hstack([frames[:, :8], frames[:, _FRAME_HEADER:]]))
    checksums = np.array(_compute_checksums(content.view(f"{order}u4"), seeds), dtype=np.uint32)
    salts = (frames[:, 8:16] == np.frombuffer(salt, dtype=np.uint8)).all(axis=1)
    wrong_frames = np.flatnonzero(~(salts & (checksums == stored).all(axis=1)))
    last = int(stored[-1, 0]), int(stored[-1, 1])
    return (int(wrong_frames[0]) if len(wrong_frames) else len(frames)), last


def _compute_checksums(words: NDArray[np.generic], seeds: ArrayLike) -> list[tuple[int, int]]:
    """Compute SQLite's cumulative checksum at the end of each row of 32-bit words, starting from
    the two sums in `seeds`."""
    columns = np.ascontiguousarray(np.atleast_2d(words).T, dtype=np.uint32)
    first, second = np.atleast_2d(np.asarray(seeds, dtype=np.uint32)).T
    for even, odd in zip(columns[::2], columns[1::2], strict=True):
        first = first + even + second
        second = second + odd + first
    return list(zip(first.tolist(), second.tolist(), strict=True))
