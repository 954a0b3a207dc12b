"""Whether the write-ahead log is complete, checked before SQLite opens the database.

If the log is missing, truncated or damaged, SQLite assumes a crash and continues without it.
Acknowledged changes would then be lost silently. The log's index (-shm), which a killed process
leaves behind, counts the committed frames. If the index is missing too, or belongs to another log,
the acknowledgement note decides (store/engines/sqlite/acknowledged.py).

There are no false alarms: when the last user leaves, SQLite deletes the index before the log. And
the index counts a frame only after it was synced to the log of the same salt, so after a power cut
it may count too few, never too many.
"""

import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from store.engines.sqlite.acknowledged import versions_lost_error
from store.exceptions import DiskFailure

# SQLite's file format: https://sqlite.org/fileformat.html#walformat and walformat.html.
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INDEX_HEADER = 48
_MAGIC_LITTLE, _MAGIC_BIG = 0x377F0682, 0x377F0683
_FRAMES_AT_ONCE = 1024

ByteOrder = Literal["<", ">"]

_NATIVE: ByteOrder = "<" if sys.byteorder == "little" else ">"


@dataclass(frozen=True, slots=True)
class _Index:
    """The log's index: the salt of the log, and the number of committed frames."""

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
        why = _what_is_wrong(log, index)
    except OSError as error:
        raise DiskFailure(
            f"Cannot read {log} and {index.name}",
            (error.strerror or str(error)).lower(),
            "Check that you may read them, and look for a failing disk",
        ) from error
    if why:
        raise versions_lost_error(path, f"{log.name} {why}")


def _what_is_wrong(log: Path, index: Path) -> str | None:
    """The committed frames that the log lacks, in words; None if the index is of another log.

    A writer may restart the log meanwhile. It first puts a new salt into the index, so what was
    read is consistent if the index still has the same salt.
    """
    while True:
        counted = _index(index)
        why = _damage(log, counted) if counted else None
        after = _index(index)
        if why is None or (after and counted and after.salt == counted.salt):
            return why


def _index(index: Path) -> _Index | None:
    """None while it is being written, or if it is damaged: SQLite does not trust it then either."""
    with index.open("rb") as opened:
        first, second = opened.read(_INDEX_HEADER), opened.read(_INDEX_HEADER)
    if len(second) < _INDEX_HEADER or first != second:
        return None
    words = np.frombuffer(first, dtype=f"{_NATIVE}u4")
    if _sums(words[:10], (0, 0)) != [tuple(words[10:].tolist())]:
        return None
    return _Index(first[32:40], struct.unpack_from(f"{_NATIVE}I", first, 16)[0])


def _damage(log: Path, index: _Index) -> str | None:
    with log.open("rb") as opened:
        header = opened.read(_WAL_HEADER)
        if len(header) < _WAL_HEADER or header[16:24] != index.salt:
            return None
        magic, _, page_bytes = struct.unpack_from(">III", header)
        order: ByteOrder = ">" if magic == _MAGIC_BIG else "<"
        checksum = struct.unpack_from(">II", header, 24)
        words = np.frombuffer(header[:24], dtype=f"{order}u4")
        if magic not in (_MAGIC_LITTLE, _MAGIC_BIG) or _sums(words, (0, 0)) != [checksum]:
            return "has a damaged header"
        for at in range(0, index.committed, _FRAMES_AT_ONCE):
            wanted = min(_FRAMES_AT_ONCE, index.committed - at)
            frames = _frames(opened, wanted, _FRAME_HEADER + page_bytes)
            sound, checksum = _sound_frames(frames, index.salt, checksum, order)
            if sound < len(frames):
                return f"is damaged at frame {at + sound + 1} of {index.committed} committed ones"
            if sound < wanted:
                return f"has {at + sound} of {index.committed} committed frames"
    return None


def _frames(log: BinaryIO, count: int, frame_bytes: int) -> NDArray[np.uint8]:
    """The next frames, one per row; fewer at the end of the log."""
    data = log.read(count * frame_bytes)
    whole = len(data) // frame_bytes
    return np.frombuffer(data, dtype=np.uint8, count=whole * frame_bytes).reshape(
        whole, frame_bytes
    )


def _sound_frames(
    frames: NDArray[np.uint8], salt: bytes, before: tuple[int, int], order: ByteOrder
) -> tuple[int, tuple[int, int]]:
    """How many of the first frames are intact, and the checksum of the last frame.

    Each checksum continues the checksum of the frame before.
    """
    if not len(frames):
        return 0, before
    stored = np.ascontiguousarray(frames[:, 16:24]).view(">u4").astype(np.uint32)
    seeds = np.vstack([np.array([before], dtype=np.uint32), stored[:-1]])
    content = np.ascontiguousarray(np.hstack([frames[:, :8], frames[:, _FRAME_HEADER:]]))
    found = np.array(_sums(content.view(f"{order}u4"), seeds), dtype=np.uint32)
    salts = (frames[:, 8:16] == np.frombuffer(salt, dtype=np.uint8)).all(axis=1)
    wrong = np.flatnonzero(~(salts & (found == stored).all(axis=1)))
    last = int(stored[-1, 0]), int(stored[-1, 1])
    return (int(wrong[0]) if len(wrong) else len(frames)), last


def _sums(words: NDArray[np.generic], seeds: ArrayLike) -> list[tuple[int, int]]:
    """SQLite's checksum of each row of words, continued from the two sums given for it."""
    columns = np.ascontiguousarray(np.atleast_2d(words).T, dtype=np.uint32)
    first, second = np.atleast_2d(np.asarray(seeds, dtype=np.uint32)).T
    for even, odd in zip(columns[::2], columns[1::2], strict=True):
        first = first + even + second
        second = second + odd + first
    return list(zip(first.tolist(), second.tolist(), strict=True))
