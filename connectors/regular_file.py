"""Reads regular files below a folder without following links. Each file is read as of a single
moment.

Each folder is opened by its name in its parent folder, and never through a symbolic link. As a
result, no link leads out of the root, and no path is too long. A depth-first walk keeps only a few
descriptors open, and rarely opens a folder again.
"""

import errno
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass

from connectors.media_type import guess_media_type
from connectors.protocol import ItemUnreadable, ItemVanished, vanished_error

ATTEMPTS = 3
ATTEMPT_PAUSE_S = 0.05
SNIFF_BYTES = 8192
# The first bytes of Word and PowerPoint files from before 2007.
_COMPOUND_FILE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_UTF16_OR_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

CLOCK_TICK_NS = 20_000_000
"""Twice the kernel's longest tick (10 ms). Two writes within a tick have the same file time."""

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
"""The errors that mean that a listed path no longer exists, for example because a folder on it has
become a link or a file."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file, the file's revision, and when it was last written (Unix ms)."""

    data: bytes
    revision: str
    modified_ms: int


def format_revision(state: os.stat_result) -> str:
    """Return a revision that changes with each write, even if the write keeps the size and restores
    the mtime.

    Two writes of the same size within one clock tick (`CLOCK_TICK_NS`) may give the same revision,
    so wait for a tick before you read the file.
    """
    return f"{state.st_size}-{state.st_mtime_ns}-{state.st_ino}-{state.st_ctime_ns}"


def read_beneath(root: str, id_: str, max_bytes: int) -> FileContent:
    """Read the file `root`/`id_` as of a single moment.

    Raises ItemVanished if the file no longer exists. Raises ItemUnreadable if the file cannot be
    read, is too large or binary, or changes faster than it can be read.
    """
    try:
        for attempt in range(ATTEMPTS):
            content = _try_to_read(root, id_, max_bytes)
            if content is not None:
                return content
            time.sleep(ATTEMPT_PAUSE_S * (attempt + 1))
    except OSError as error:
        raise _translate_error(error, id_) from error
    raise ItemUnreadable(
        f"Cannot read {id_!r}", "the file is still being written", "The next scan reads the file."
    )


def _try_to_read(root: str, id_: str, max_bytes: int) -> FileContent | None:
    """Try to read the file. Returns None if it changed during the attempt."""
    handle = open_beneath(root, id_)
    try:
        before = os.fstat(handle)
        _check(before, id_, max_bytes)
        _let_the_clock_tick(before)
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(before.st_size + 1)
        after = os.fstat(handle)
    finally:
        os.close(handle)
    if format_revision(before) != format_revision(after) or len(data) != after.st_size:
        return None
    check_text(id_, data)
    return FileContent(data, format_revision(after), after.st_mtime_ns // 1_000_000)


def open_beneath(root: str, id_: str) -> int:
    """Open a file component by component, and return the descriptor. No link leads out of the root.

    The root itself may be a link. Raises OSError.
    """
    *folders, name = id_.split("/")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            below = os.open(part, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)


def check_text(id_: str, data: bytes) -> None:
    """Raise ItemUnreadable if a file with a text suffix has binary content."""
    if not guess_media_type(id_).startswith("text/"):
        return
    if data.startswith(_COMPOUND_FILE):
        raise ItemUnreadable(
            f"Cannot index {id_!r}",
            "Word and PowerPoint files in a format from before 2007 cannot be read",
            "Save the file as .docx or .pptx.",
        )
    if is_binary(data):
        raise ItemUnreadable(
            f"Cannot index {id_!r}",
            "the file contains NUL bytes, so it is binary",
            "Add the file to `ignore` if it is not text, or save it as UTF-8.",
        )


def is_binary(data: bytes) -> bool:
    """Whether the first 8 KiB contain a NUL byte, and the file does not begin with a UTF-16 or
    UTF-32 byte order mark."""
    return b"\0" in data[:SNIFF_BYTES] and not data.startswith(_UTF16_OR_32_MARKS)


def describe_too_large(size_bytes: int, max_bytes: int) -> tuple[str, str]:
    return (
        f"the document is too large: {size_bytes:,} bytes; the limit is {max_bytes:,}",
        "Raise `max_bytes` of the source in config.toml, split the document or add it to `ignore`.",
    )


def check_size(id_: str, size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise ItemUnreadable(f"Cannot read {id_!r}", *describe_too_large(size_bytes, max_bytes))


def _check(state: os.stat_result, id_: str, max_bytes: int) -> None:
    if stat.S_ISDIR(state.st_mode):
        raise ItemVanished(
            f"Cannot read {id_!r}",
            "the file was replaced with a folder",
            "The next scan updates the index.",
        )
    if not stat.S_ISREG(state.st_mode):
        raise ItemUnreadable(
            f"Cannot read {id_!r}", "not a regular file", "Add the path to `ignore`."
        )
    check_size(id_, state.st_size, max_bytes)


def _let_the_clock_tick(state: os.stat_result) -> None:
    """Wait until any later write gets a later time, and therefore another revision."""
    age_ns = time.time_ns() - state.st_ctime_ns
    if 0 <= age_ns < CLOCK_TICK_NS:
        time.sleep((CLOCK_TICK_NS - age_ns) / 1e9)


def _translate_error(error: OSError, id_: str) -> ItemVanished | ItemUnreadable:
    if error.errno in GONE:
        return vanished_error(id_)
    hint = (
        "Give the daemon's user read permission, or add the file to `ignore`."
        if isinstance(error, PermissionError)
        else "The next scan tries again. Check the disk if the error persists."
    )
    return ItemUnreadable(f"Cannot read {id_!r}", (error.strerror or str(error)).lower(), hint)


_MOST_OPEN = 64


class OpenFolders:
    """Opens the folder at `root`, and folders below the root on request. Raises OSError.

    Up to `most_open` folders stay open, all on the path to the last requested folder.
    """

    def __init__(self, root: str, most_open: int = _MOST_OPEN) -> None:
        self._most_open = most_open
        self.root = os.open(root, FOLDER_FLAGS)
        self._open: dict[str, int] = {}  # descriptors by id, topmost folder first

    def enter(self, id_: str) -> int:
        """Return the descriptor of a folder. The descriptor is valid until the next call. The empty
        id is the root.

        Raises OSError, with ENOTDIR or ELOOP if a component of the path is a file or a link.
        """
        if not id_:
            return self.root
        self._close_others(id_)
        above, folder = "", self.root
        if self._open:
            above, folder = next(reversed(self._open.items()))
        if above == id_:
            return folder
        for end in _find_ends(id_, len(above)):
            start = len(above) + 1 if above else 0
            folder = os.open(id_[start:end], FOLDER_FLAGS, dir_fd=folder)
            above = id_[:end]
            self._open[above] = folder
            if len(self._open) > self._most_open:
                os.close(self._open.pop(next(iter(self._open))))
        return folder

    def close(self) -> None:
        """Close all descriptors. This method may be called repeatedly."""
        for folder in self._open.values():
            os.close(folder)
        self._open.clear()
        with suppress(OSError):
            os.close(self.root)
        self.root = -1

    def _close_others(self, id_: str) -> None:
        """Close the folders that are not on the path to this folder, deepest first."""
        while self._open:
            deepest = next(reversed(self._open))
            if deepest == id_ or id_.startswith(deepest + "/"):
                return
            os.close(self._open.pop(deepest))


def _find_ends(id_: str, start: int) -> list[int]:
    """Return the end position of each path component after position `start`.

    >>> _find_ends("a/bc/d", 1)
    [4, 6]
    """
    ends, end = [], id_.find("/", start + 1)
    while end >= 0:
        ends.append(end)
        end = id_.find("/", end + 1)
    return [*ends, len(id_)]
