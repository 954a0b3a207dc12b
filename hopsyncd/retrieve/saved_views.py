"""Saves ACL views on disk, so that no query waits for them after a restart.

A view takes a long time to compute if many documents are hidden. Its matches are saved, by the ids
of questions, in a file in the folder of the saved index. Saved matches are used only if the store's
stamp for the version has not changed since they were saved. The rest of a view is recomputed, which
is fast.
"""

import json
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from hopsyncd.index.acl_view import ViewMatches, list_view_matches, restore_acl_view
from hopsyncd.index.snapshot import Snapshot
from store.changes import Stamp, stamp
from store.contract import Connection
from store.exceptions import NoSuchVersion, StoreError
from store.versions import read_version
from store.visibility import Mask, list_hidden_folders, list_hidden_sources

log = structlog.get_logger(__name__)

_FORMAT = 1
_DIGEST_SIZE = 16  # bytes
_MOST_FILES = 4  # one file for each set of hidden sources
_RULES = 2  # Increase this number if the same mask hides other documents than before.
_COLUMNS = ("rematched", "source", "target", "similarity")

Connect = Callable[[], AbstractContextManager[Connection]]
"""Opens a snapshot of the store for this thread."""


class SavedViews:
    """Loads and saves the newest view of each set of hidden sources, in an existing folder.

    If `is_owned` is false, another process writes the files, and `save` does nothing.
    """

    def __init__(
        self, folder: Path, connect: Connect, budget_factor: float, is_owned: bool
    ) -> None:
        self._folder = folder
        self._connect = connect
        self._budget_factor = budget_factor
        self._is_owned = is_owned
        self._lock = threading.Lock()
        self._saved: dict[str, int] = {}  # the version in each file

    def load(self, head: Snapshot, until: int, hidden: Mask) -> Snapshot | None:
        """Load a saved view into the head's index, if its version is at most `until`.

        Returns None if no such view is saved, or if its file cannot be read.
        """
        path = self._get_path(hidden)
        try:
            with np.load(BytesIO(_read_checked(path)), allow_pickle=False) as file:
                about = json.loads(bytes(file["about"]))
                saved_stamp = Stamp(**about["stamp"])
                if about["format"] != _FORMAT or about["mask"] != _describe(hidden):
                    return None
                if saved_stamp.version > min(until, head.index.version):
                    return None
                matches = ViewMatches(*(file[name] for name in _COLUMNS))
            with self._connect() as connection:
                if stamp(connection, saved_stamp.version) != saved_stamp:
                    return None
                of_view = read_version(connection, saved_stamp.version)
            if of_view.generation != head.version.generation:
                return None
        except (FileNotFoundError, NoSuchVersion):
            return None
        except (OSError, ValueError, KeyError, TypeError, StoreError) as error:
            log.warning("a saved ACL view could not be read, so it is recomputed", why=str(error))
            return None
        self._saved[path.name] = saved_stamp.version
        return restore_acl_view(of_view, hidden, self._budget_factor, head, matches)

    def save(self, view: Snapshot) -> None:
        """Save a view unless a view of the same or a newer version is saved. Errors are logged, not
        raised."""
        path = self._get_path(view.hidden)
        with self._lock:
            is_saved = path.exists() and self._saved.get(path.name, 0) >= view.version.id
            if is_saved or not self._is_owned or not self._folder.is_dir():
                return
            try:
                with self._connect() as connection:
                    view_stamp = stamp(connection, view.version.id)
                self._write(path, view, view_stamp)
            except (OSError, StoreError) as error:
                log.warning("an ACL view could not be saved", why=str(error))
                with suppress(OSError):
                    path.with_suffix(".new").unlink(missing_ok=True)
                return
            self._saved[path.name] = view.version.id

    def _write(self, path: Path, view: Snapshot, view_stamp: Stamp) -> None:
        about: dict[str, Any] = {
            "format": _FORMAT,
            "mask": _describe(view.hidden),
            "stamp": asdict(view_stamp),
        }
        matches, new = list_view_matches(view), path.with_suffix(".new")
        columns = {name: getattr(matches, name) for name in _COLUMNS}
        columns["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        np.savez(buffer := BytesIO(), **columns)
        data = buffer.getvalue()
        new.write_bytes(_compute_digest(data) + data)
        new.replace(path)
        others = sorted(self._folder.glob("view-*.bin"), key=os.path.getmtime)
        for other in others[:-_MOST_FILES]:
            with suppress(OSError):
                other.unlink()
            self._saved.pop(other.name, None)

    def _get_path(self, hidden: Mask) -> Path:
        described = json.dumps(_describe(hidden)).encode()
        return self._folder / f"view-{_compute_digest(described).hex()}.bin"


def _compute_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_SIZE).digest()


def _read_checked(path: Path) -> bytes:
    """Read a file that begins with a digest of its content.

    Raises ValueError if the digest is wrong.
    """
    content = path.read_bytes()
    data = content[_DIGEST_SIZE:]
    if _compute_digest(data) != content[:_DIGEST_SIZE]:
        raise ValueError("the digest in the file does not match the content")
    return data


def _describe(hidden: Mask) -> list[Any]:
    """Describe the hidden sources and folders as JSON. Equal masks have the same description."""
    folders = [
        [folder.source, list(folder.patterns), list(folder.decisions)]
        for folder in list_hidden_folders(hidden)
    ]
    return [_RULES, list_hidden_sources(hidden), sorted(folders)]
