"""Removes exported encoders from the cache, unless they are in use."""

import fcntl
import os
import shutil
import time
import weakref
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import structlog

from hopsyncd.models.embedding.folder_model import EXPORT, read_choice

PREFIX = "encoder-"
_REMOVED = ".removed"  # the suffix of a folder that is being removed
# A folder without a `Choice` is unfinished if it is younger than this. Its writer gives up after
# an hour.
_UNFINISHED_S = 7200.0

log = structlog.get_logger(__name__)


def keep_in_use(user: object, folder: Path) -> None:
    """Prevent the removal of the exported encoder in `folder` while the object `user` exists.

    Raises OSError if the folder no longer exists.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), folder.stat()):
            raise FileNotFoundError(f"{folder} has just been removed")
    except OSError:
        os.close(descriptor)
        raise
    weakref.finalize(user, os.close, descriptor)


def remove_unused_exports(cache: Path, stored: Collection[str]) -> list[str]:
    """Remove the exported encoders that are not in use. Returns the names of their folders.

    Encoders whose vectors are stored, named in `stored`, are kept, and so are encoders that are
    open in this process or another. A failure is logged.
    """
    removed = []
    for folder in sorted(cache.glob(f"{PREFIX}*")):
        try:
            if folder.is_dir() and not _is_needed(folder, stored) and _remove(folder):
                removed.append(folder.name)
        except OSError as error:
            log.warning(
                "an old exported encoder could not be removed", folder=str(folder), why=str(error)
            )
    if removed:
        log.info("old exported encoders removed", folders=removed)
    return removed


def _is_needed(folder: Path, stored: Collection[str]) -> bool:
    if folder.name.endswith(_REMOVED):
        return False
    choice = read_choice(folder)
    if choice is None:
        return time.time() - folder.stat().st_mtime < _UNFINISHED_S
    tag = f"/{EXPORT}-{choice.runtime}-{choice.graph}"
    return bool(choice.graph) and any(tag in name for name in stored)


def _remove(folder: Path) -> bool:
    """Remove a folder unless it is in use. Returns whether the folder was removed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Rename the folder first, so that no process finds it half removed.
            hidden = folder
            if not folder.name.endswith(_REMOVED):
                hidden = folder.with_name(f"{folder.name}.{os.getpid()}{_REMOVED}")
                folder.rename(hidden)
            shutil.rmtree(hidden)
            return True
        return False
    finally:
        os.close(descriptor)
