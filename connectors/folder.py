"""A folder of files as a source: a complete listing by stable rules, and safe reads.

What `ignore` hides is never an item, nor are symbolic links. A link to a target in the folder is
skipped: the target is listed where it is, so loops end and nothing is indexed twice. A link that
leads out of the folder is a Problem and is not followed.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from connectors.ignore import IGNORE_FILES, Level, read_level, with_level
from connectors.media_type import MBOX, media_type
from connectors.protocol import (
    Fetched,
    Item,
    ItemUnreadable,
    Problem,
    SourceUnavailable,
    prefixes,
    printable_id,
)
from connectors.regular_file import read_beneath, revision_of, too_large
from connectors.settings import FileSettings

_DEFAULT = FileSettings()

Scope: TypeAlias = "dict[str, Scope] | None"
"""Which children to list: None for all, or those named, each with its own scope."""


@dataclass(frozen=True, slots=True)
class _Root:
    """The root during one listing. `path` is free of links; `never` are ids."""

    path: str
    device: int
    inode: int
    never: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder still to be listed, with the ignore files of the folders above it."""

    id: str
    levels: tuple[Level, ...]
    scope: Scope


class FolderConnector:
    """Lists and reads the files under `root` that the settings select.

    `never` are paths (hopsyncd's own data) that no pattern brings back. Raises ValueError for an
    invalid pattern.
    """

    def __init__(
        self, root: Path, settings: FileSettings = _DEFAULT, never: Sequence[Path] = ()
    ) -> None:
        self._root = root
        self._rules = settings.rules()
        self._max_bytes = settings.max_bytes
        self._never = tuple(never)

    def discover(
        self, since: str | None, under: Sequence[str] | None = None
    ) -> Iterator[Item | Problem]:
        """As in the protocol; folders in depth-first order, names sorted.

        There is no Cursor: looking at every name is as cheap as any state that could be kept
        between listings. What `under` names need not exist, and the ignore files of parent folders
        apply as in a full listing. Raises ValueError for an id that leads out of the folder.
        """
        return self._walk(_scope_of(under))

    def fetch(self, item: Item) -> Fetched:
        """As in the protocol. Never follows a link, waits for a pipe or reads past `max_bytes`."""
        try:
            _components(item.id)
        except ValueError as error:
            raise ItemUnreadable(
                f"Cannot read {item.id!r}", str(error), "Report this: no listing should name it."
            ) from error
        content = read_beneath(os.fspath(self._root), item.id, self._max_bytes)
        return Fetched(
            content.data, content.revision, media_type(item.id), modified_ms=content.modified_ms
        )

    def close(self) -> None:
        """Nothing is held."""

    def is_noise(self, id_: str) -> bool:
        """Whether a change of this path can be ignored without looking at the disk.

        For the watcher's hints only: it takes files for folders and reads no ignore files, so if
        one brings something back, only the next full scan sees its changes.
        """
        never = _ids_beneath(os.path.realpath(self._root), self._never)
        return any(path in never or self._rules.hides(path, True, ()) for path in prefixes(id_))

    def _walk(self, scope: Scope) -> Iterator[Item | Problem]:
        root = self._enter()
        stack = [_Folder("", (), scope)]
        while stack:
            below = []
            for found in self._list(root, stack.pop()):
                if isinstance(found, _Folder):
                    below.append(found)
                else:
                    yield found
            stack.extend(reversed(below))
        self._check_still_there(root)

    def _list(self, root: _Root, folder: _Folder) -> Iterator[Item | Problem | _Folder]:
        try:
            names, levels = _open_folder(root, folder)
        except (FileNotFoundError, NotADirectoryError):
            self._check_still_there(root)
            return
        except OSError as error:
            if not folder.id:
                raise self._unavailable(error) from error
            yield _failed(folder.id, error, subtree=True)
            return
        for name in names:
            scope = None if folder.scope is None else folder.scope[name]
            id_ = f"{folder.id}/{name}" if folder.id else name
            found = self._judge(root, id_, levels, scope)
            if found is not None and (scope is None or _reaches_below(found)):
                yield found

    def _judge(
        self, root: _Root, id_: str, levels: tuple[Level, ...], scope: Scope
    ) -> Item | Problem | _Folder | None:
        """What one path is; None if it is not a document or has just gone."""
        path = f"{root.path}/{id_}"
        if id_ in root.never:
            return None
        try:
            state = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return _failed(id_, error, subtree=True)
        kind = stat.S_IFMT(state.st_mode)
        is_folder = kind == stat.S_IFDIR or (kind == stat.S_IFLNK and _leads_to_folder(path))
        if self._rules.hides(id_, is_folder, levels):
            return None
        if not is_folder and kind in (stat.S_IFREG, stat.S_IFLNK) and not self._rules.includes(id_):
            return None
        if id_ != printable_id(id_):
            hint = "Rename it, for example with convmv."
            return Problem(printable_id(id_), "its name is not UTF-8", hint, is_folder)
        if kind == stat.S_IFLNK:
            return _judge_link(root, id_, is_folder)
        return _Folder(id_, levels, scope) if is_folder else self._judge_file(path, id_, state)

    def _judge_file(self, path: str, id_: str, state: os.stat_result) -> Item | Problem:
        if not stat.S_ISREG(state.st_mode):
            return Problem(id_, "it is not a regular file but a pipe, socket or device", _IGNORE_IT)
        if state.st_size > self._max_bytes:
            why, hint = too_large(state.st_size, self._max_bytes)
            return Problem(id_, why, _AS_MAILBOX if media_type(id_) == MBOX else hint)
        if not _is_readable(path, state):
            return _failed(id_, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        return Item(id_, revision_of(state), state.st_size)

    def _enter(self) -> _Root:
        real = os.path.realpath(self._root)
        try:
            state = Path(real).stat()
        except OSError as error:
            raise self._unavailable(error) from error
        if not stat.S_ISDIR(state.st_mode):
            raise self._unavailable(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        own = [path for path in self._never if _is_within(real, os.path.realpath(path))]
        if own:
            raise SourceUnavailable(
                f"Cannot list the folder {self._root}",
                f"it is inside hopsyncd's own data at {own[0]}",
                "Choose another folder as `path` of this source in config.toml.",
            )
        return _Root(real, state.st_dev, state.st_ino, _ids_beneath(real, self._never))

    def _check_still_there(self, root: _Root) -> None:
        """Raise SourceUnavailable if the root was unmounted or replaced."""
        try:
            state = self._root.stat()
        except OSError as error:
            raise self._unavailable(error) from error
        if (state.st_dev, state.st_ino) != (root.device, root.inode):
            raise SourceUnavailable(
                f"Cannot list the folder {self._root}",
                "it was unmounted or replaced during the listing",
                "Nothing is forgotten; the next scan starts again.",
            )

    def _unavailable(self, error: OSError) -> SourceUnavailable:
        hints = {
            FileNotFoundError: "Mount or create it, or correct `path` of this source in",
            NotADirectoryError: "Name the folder that holds the file as `path` of this source in",
            PermissionError: "Give the daemon's user read permission, or choose another folder in",
        }
        hint = hints.get(type(error), "Check the disk or its mount, and `path` of this source in")
        return SourceUnavailable(
            f"Cannot list the folder {self._root}",
            _reason(error),
            f"{hint} config.toml. What is indexed of it is kept.",
        )


def widened(ids: Sequence[str]) -> list[str] | None:
    """What to list again after these ids changed; None for everything.

    A changed ignore file affects the whole folder that it is in.
    """
    scopes = dict.fromkeys(
        id_.rpartition("/")[0] if id_.rpartition("/")[2] in IGNORE_FILES else id_ for id_ in ids
    )
    return None if "" in scopes else [*scopes]


_AS_MAILBOX = (
    "Make it a source of its own, which reads message by message: `hopsyncd add PATH`. Or raise "
    "`max_bytes` of this source in config.toml, or add it to `ignore`."
)
_IGNORE_IT = "Move it out of the folder or add it to `ignore`."


def _open_folder(root: _Root, folder: _Folder) -> tuple[list[str], tuple[Level, ...]]:
    """The sorted names to look at, and the ignore files that apply to them. Raises OSError."""
    path = f"{root.path}/{folder.id}" if folder.id else root.path
    if folder.scope is None:
        with os.scandir(path) as entries:
            names = present = sorted(entry.name for entry in entries)
    else:
        names, present = sorted(folder.scope), list(IGNORE_FILES)
    level = read_level(path, folder.id + "/" if folder.id else "", present)
    return names, with_level(folder.levels, level)


def _judge_link(root: _Root, id_: str, is_folder: bool) -> Problem | None:
    target = os.path.realpath(f"{root.path}/{id_}")
    if _is_within(target, root.path):
        return None
    return Problem(
        id_,
        f"it is a symbolic link that leads out of the folder, to {printable_id(target)}",
        "Make its target a source of its own, or add the link to `ignore`.",
        subtree=is_folder,
    )


def _failed(id_: str, error: OSError, subtree: bool = False) -> Problem:
    hint = (
        "Give the daemon's user read permission, or add it to `ignore`."
        if isinstance(error, PermissionError)
        else "The next scan tries again; check the disk if this continues."
    )
    return Problem(printable_id(id_), _reason(error), hint, subtree)


def _reaches_below(found: Item | Problem | _Folder) -> bool:
    """Whether it says something about paths below it."""
    return isinstance(found, _Folder) or (isinstance(found, Problem) and found.subtree)


def _leads_to_folder(link: str) -> bool:
    try:
        return stat.S_ISDIR(Path(link).stat().st_mode)
    except OSError:
        return False


def _is_readable(path: str, state: os.stat_result) -> bool:
    if state.st_mode & stat.S_IROTH and state.st_mode & stat.S_IRUSR:
        return True
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def _scope_of(under: Sequence[str] | None) -> Scope:
    """The ids as a tree.

    >>> _scope_of(["a/b.md", "a/c", "d"])
    {'a': {'b.md': None, 'c': None}, 'd': None}
    """
    if under is None or "" in under:
        return None
    tree: dict[str, Scope] = {}
    for id_ in under:
        *folders, name = _components(id_)
        node: Scope = tree
        for part in folders:
            node = node.setdefault(part, {}) if node is not None else None
        if node is not None:
            node[name] = None
    return tree


def _components(id_: str) -> list[str]:
    """The parts of an id. Raises ValueError unless it is a path beneath the root."""
    parts = id_.split("/")
    if "\0" in id_ or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"{id_!r} is not a path inside the folder, relative to it")
    return parts


def _ids_beneath(root: str, paths: Sequence[Path]) -> frozenset[str]:
    reals = (os.path.realpath(path) for path in paths)
    return frozenset(real[len(root) :].lstrip("/") for real in reals if _is_within(real, root))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _reason(error: OSError) -> str:
    """The system's message, with the file's name if it is an ignore file in the folder."""
    name = os.fsdecode(error.filename or "").rpartition("/")[2]
    why = (error.strerror or str(error)).lower()
    return f"{name} in it: {why}" if name in IGNORE_FILES else why
