"""Whether the write-ahead log is all there, judged before SQLite opens the database.

SQLite takes a log that is missing or cut short for the trace of a crash and goes on without: what
was acknowledged would be gone without a word. The log's index (-shm), which a killed process leaves
behind, says how many frames were committed.

It never cries wolf: when the last user leaves, SQLite deletes the index before the log; and the
index counts a frame only after it was synced to the log of the same salt, so that after a power cut
it may say too little, never too much.
"""

import struct
import sys
from pathlib import Path

from store.errors import NotADatabase

# SQLite's file format, sections 4.1 and 4.2 of https://sqlite.org/walformat.html and fileformat.
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INDEX_HEADER = 48
_BYTE_ORDER = "<" if sys.byteorder == "little" else ">"


def refuse_lost_wal(path: Path) -> None:
    """Raise NotADatabase if committed frames are missing from the log of the database at `path`."""
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not path.exists() or not index.exists():
        return
    if not log.exists():
        raise _lost(path, f"{log.name} is missing and {index.name} is there")
    committed, stored = _frames(log, index)
    if stored < committed:
        raise _lost(path, f"{log.name} has {stored} of {committed} committed frames")


def _lost(path: Path, why: str) -> NotADatabase:
    return NotADatabase(
        f"Cannot open {path}",
        f"{why}: its newest versions are lost",
        f"Put the file back, or restore a backup; or delete {path.name}-shm to go on without them",
    )


def _frames(log: Path, index: Path) -> tuple[int, int]:
    """How many frames the index counts, and how many the log has; (0, 0) if they are strangers.

    A writer may empty the log meanwhile. It says so in the index first, so what was read belongs
    together if the index is still the same afterwards.
    """
    while True:
        counted = _start_of(index, _INDEX_HEADER)
        header, size_bytes = _start_of(log, _WAL_HEADER), log.stat().st_size
        if _start_of(index, _INDEX_HEADER) == counted:
            break
    if len(counted) < _INDEX_HEADER or len(header) < _WAL_HEADER or counted[32:40] != header[16:24]:
        return 0, 0
    committed = struct.unpack_from(f"{_BYTE_ORDER}I", counted, 16)[0]
    page_size = struct.unpack_from(">I", header, 8)[0]
    return committed, (size_bytes - _WAL_HEADER) // (_FRAME_HEADER + page_size)


def _start_of(file: Path, count_bytes: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(count_bytes)
