"""Replaces files atomically, and syncs files and folders to disk."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(file: Path, content: bytes, *, mode: int = 0o600, is_durable: bool = True) -> None:
    """Replace a file atomically. If `is_durable` is true, sync it to disk. Raises OSError."""
    handle, name = tempfile.mkstemp(".part", f".{file.name}.", file.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as written:
            written.write(content)
            if is_durable:
                written.flush()
                os.fsync(handle)
        part.chmod(mode)
        part.replace(file)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    if is_durable:
        sync_to_disk(file.parent)


def write_private(path: Path, data: bytes) -> None:
    """Create a file that only its owner can read, and sync it to disk. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_to_disk(path: Path) -> None:
    """Sync a file, or the names in a folder, so that they survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, if its file system can do that."""
    with suppress(OSError):  # some network file systems do not support it
        sync_to_disk(folder)
