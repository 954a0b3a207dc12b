"""Reads a Maildir and the Maildirs below it as a source. Each message is a file, with its flags in
the file name.

When a message is read, flagged or moved from `new` to `cur`, the part of its file name before the
colon stays the same. The document's id therefore consists of the folder and this part.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.mail import DEFAULT_MAX_MESSAGE_BYTES
from connectors.mail.message import describe_too_large, is_wanted, make_fetched
from connectors.protocol import (
    Fetched,
    Found,
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    Selection,
    SourceUnavailable,
    escape_id,
    vanished_error,
)
from connectors.regular_file import GONE, OpenFolders, open_beneath
from connectors.settings import DEFAULT_FOLDERS

ROOT_FOLDER = "INBOX"  # the name of the Maildir at the root in patterns
_PARTS = ("new", "cur")  # `new` comes first, so a message that moves to `cur` is not missed
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class _Names:
    """The messages of a folder: the path below the root for each unique name. `strange` are names
    that are not valid UTF-8."""

    folder: str
    paths: dict[str, str]
    strange: tuple[str, ...] = ()


class MaildirConnector:
    """Lists and reads the messages under `root`, a Maildir or a folder that contains Maildirs.

    `folders` are shell patterns for the names of folders; a pattern that begins with `!` excludes
    folders. Messages over `max_bytes` are problems. Links are not followed.
    """

    def __init__(
        self,
        root: Path,
        folders: Sequence[str] = DEFAULT_FOLDERS,
        max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self._root = root
        self._folders = tuple(folders)
        self._max_bytes = max_bytes
        self._names = _Names("", {})

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Implement `Connector.discover`. Every listing is complete, so there is no cursor."""
        before, parts = self._read_identity(), Selection(under)
        found_any = False
        for folder, error in self._walk():
            if error is not None:
                yield Problem(escape_id(folder), *_explain_error(error), subtree=True)
            else:
                found_any = True
                if not folder or parts.leads_to(folder):
                    yield from self._list(folder, parts)
        if not found_any:
            raise self._unavailable_error(
                "the folder contains no Maildir",
                "Set `path` to the folder that contains `cur` and `new`",
            )
        if self._read_identity() != before:
            raise self._unavailable_error(
                "the folder was unmounted or replaced during the listing", "Mount the folder again"
            )

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`. Finds the message even if its flags have changed since the
        listing."""
        folder, _, unique = item.id.rpartition("/")
        try:
            if self._names.folder != folder or unique not in self._names.paths:
                self._names = self._read_names(folder)
            try:
                return self._read(item, self._names.paths.get(unique))
            except ItemVanished:
                self._names = self._read_names(folder)
                return self._read(item, self._names.paths.get(unique))
        except OSError as error:
            raise ItemUnreadable(f"Cannot read {item.id!r}", *_explain_error(error)) from error

    def close(self) -> None:
        """Do nothing: no resource stays open."""

    def _read(self, item: Item, path: str | None) -> Fetched:
        if path is None:
            raise vanished_error(item.id)
        try:
            with os.fdopen(open_beneath(os.fspath(self._root), path), "rb") as file:
                data = file.read(self._max_bytes + 1)
                state = os.fstat(file.fileno())
        except OSError as error:
            kind = ItemVanished if error.errno in GONE else ItemUnreadable
            raise kind(f"Cannot read {item.id!r}", *_explain_error(error)) from error
        if len(data) > self._max_bytes:
            raise ItemUnreadable(
                f"Cannot read {item.id!r}", *describe_too_large(state.st_size, self._max_bytes)
            )
        return make_fetched(data, _format_revision(state))

    def _walk(self) -> Iterator[tuple[str, OSError | None]]:
        """Yield the path of each selected Maildir, sorted, with None or, if the folder cannot be
        read, the error. The path "" is the root."""
        folders = self._open_root()
        try:
            yield from self._walk_below(folders)
        finally:
            folders.close()

    def _walk_below(self, folders: OpenFolders) -> Iterator[tuple[str, OSError | None]]:
        stack = [""]
        while stack:
            folder = stack.pop()
            try:
                with os.scandir(folders.enter(folder)) as entries:
                    names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
            except OSError as error:
                if not folder:
                    raise self._unavailable_error(*_explain_error(error)) from error
                if error.errno not in GONE:
                    yield folder, error
                continue
            is_maildir = "cur" in names
            if is_maildir and is_wanted(folder.lstrip(".") or ROOT_FOLDER, self._folders):
                yield folder, None
            below = [n for n in names if not (is_maildir and n in ("cur", "new", "tmp"))]
            stack.extend(f"{folder}/{n}" if folder else n for n in reversed(below))

    def _open_root(self) -> OpenFolders:
        try:
            return OpenFolders(os.path.realpath(self._root))
        except OSError as error:
            raise self._unavailable_error(*_explain_error(error)) from error

    def _list(self, folder: str, parts: Selection) -> Iterator[Item | Problem]:
        folders = self._open_root()
        try:
            yield from self._list_in(folders, folder, parts)
        finally:
            folders.close()

    def _list_in(
        self, folders: OpenFolders, folder: str, parts: Selection
    ) -> Iterator[Item | Problem]:
        try:
            names = self._read_names(folder)
        except OSError as error:
            yield Problem(escape_id(folder), *_explain_error(error), subtree=True)
            return
        for unique in names.strange:
            yield Problem(
                f"{folder}/{unique}" if folder else unique,
                "the file name is not UTF-8",
                "Rename the file.",
            )
        for unique in sorted(names.paths):
            id_ = f"{folder}/{unique}" if folder else unique
            if not parts.has(id_):
                continue
            try:
                state = self._read_lstat(folders, names.paths.get(unique))
                if state is None and unique in names.paths:
                    # It was read, flagged or deleted meanwhile, so look at the names again.
                    names = self._read_names(folder)
                    state = self._read_lstat(folders, names.paths.get(unique))
            except OSError as error:
                yield Problem(id_, *_explain_error(error))
                continue
            if state is not None:
                yield self._judge(id_, state)

    def _read_lstat(self, folders: OpenFolders, path: str | None) -> os.stat_result | None:
        if path is None:
            return None
        folder, _, name = path.rpartition("/")
        try:
            return os.stat(name, dir_fd=folders.enter(folder), follow_symlinks=False)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise

    def _judge(self, id_: str, state: os.stat_result) -> Item | Problem:
        if not stat.S_ISREG(state.st_mode):
            return Problem(id_, "not a regular file", "Move the file out of the Maildir.")
        if state.st_size > self._max_bytes:
            return Problem(id_, *describe_too_large(state.st_size, self._max_bytes))
        return Item(id_, _format_revision(state))

    def _read_names(self, folder: str) -> _Names:
        """Return the messages of a Maildir. Raises OSError."""
        paths: dict[str, str] = {}
        strange: set[str] = set()
        folders = self._open_root()
        try:
            for part in _PARTS:
                within = f"{folder}/{part}" if folder else part
                for name in _list_names(folders, within):
                    unique = name.partition(":")[0]
                    if unique != escape_id(unique):
                        strange.add(escape_id(unique))
                    else:
                        paths[unique] = f"{within}/{name}"
        finally:
            folders.close()
        return _Names(folder, paths, tuple(sorted(strange)))

    def _read_identity(self) -> tuple[int, int]:
        try:
            state = self._root.stat()
        except OSError as error:
            raise self._unavailable_error(*_explain_error(error)) from error
        return state.st_dev, state.st_ino

    def _unavailable_error(self, why: str, hint: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"Cannot list the Maildir {self._root}",
            why,
            f"{hint.rstrip('.')}. If `path` of this source in config.toml is wrong, correct it. "
            "Indexed mail stays searchable.",
        )


def _list_names(folders: OpenFolders, id_: str) -> Iterator[str]:
    """Yield the names of the files in a folder. Yields nothing if the folder no longer exists.
    Raises OSError.

    A file that is renamed during the listing can be missed. If the folder's modification time
    changes, the folder is therefore listed again, up to three times in all. Names can then be
    repeated.
    """
    try:
        folder = folders.enter(id_)
    except OSError as error:
        if error.errno in GONE:
            return
        raise
    for _ in range(_LOOKS):
        before = os.fstat(folder).st_mtime_ns
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if not e.name.startswith(".")]
        yield from names
        if os.fstat(folder).st_mtime_ns == before:
            return


def _format_revision(state: os.stat_result) -> str:
    """Return a revision that changes when the file is rewritten, but not when it is renamed because
    of its flags."""
    return f"{state.st_size}-{state.st_mtime_ns}-{state.st_ino}"


def _explain_error(error: OSError) -> tuple[str, str]:
    hint = (
        "Give the daemon's user read permission."
        if isinstance(error, PermissionError)
        else "Check the disk or its mount. The next scan tries again."
    )
    return (error.strerror or str(error)).lower(), hint
