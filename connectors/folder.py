"""Reads a folder of files as a source: lists it completely and opens its files safely.

Symbolic links and paths that `ignore` hides are never items. A link to a target in the folder is
skipped, because the target is listed under its own path. As a result, loops end, and nothing is
indexed twice. A link that leads out of the folder is reported as a Problem and not followed.
"""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from connectors.ignore import IGNORE_FILES, Level, add_level, read_level
from connectors.media_type import MBOX, guess_media_type, name_kind
from connectors.protocol import (
    HIDDEN_FOLDERS,
    SECRET,
    SECRET_FOLDERS,
    Fetched,
    Item,
    ItemUnreadable,
    Problem,
    SourceUnavailable,
    escape_id,
    list_prefixes,
)
from connectors.regular_file import GONE, OpenFolders, format_revision, read_beneath
from connectors.settings import FileSettings

_DEFAULT = FileSettings()
_MOST_SUFFIXES = 100

MAX_DEPTH = 10_000
MAX_ID_CHARACTERS = 65_536
"""The limits of depth and path length. A folder beyond them is a Problem and is not listed."""

Scope: TypeAlias = "dict[str, Scope] | None"
"""The children to list: None for all, or the scope of each child by name."""


@dataclass(frozen=True, slots=True)
class _Root:
    """The root folder during a listing. `path` contains no links. `never` are the ids of hopsyncd's
    own data, which are always excluded."""

    path: str
    device: int
    inode: int
    never: frozenset[str]
    folders: OpenFolders
    left_out: Counter[str]  # see Connector


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name in an open folder. The methods use the folder's descriptor and do not resolve the path
    again, because a part of the path may have become a link."""

    folder: int
    name: str
    id: str

    def read_state(self) -> os.stat_result:
        """Return the result of lstat for this entry. Raises OSError."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def leads_to_folder(self) -> bool:
        try:
            return stat.S_ISDIR(os.stat(self.name, dir_fd=self.folder).st_mode)
        except OSError:
            return False

    def is_readable(self, state: os.stat_result) -> bool:
        if state.st_mode & stat.S_IROTH and state.st_mode & stat.S_IRUSR:
            return True
        by_effective = os.access in os.supports_effective_ids
        return os.access(self.name, os.R_OK, dir_fd=self.folder, effective_ids=by_effective)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is still to be listed, with the ignore files of the folders above it."""

    id: str
    levels: tuple[Level, ...]
    scope: Scope


class FolderConnector:
    """Lists and reads the files under `root` that the settings select.

    `never` are the paths of hopsyncd's own data, which are excluded whatever the settings say.
    Raises ValueError for an invalid pattern.
    """

    def __init__(
        self, root: Path, settings: FileSettings = _DEFAULT, never: Sequence[Path] = ()
    ) -> None:
        self._root = root
        self._rules = settings.build_rules()
        self._settings = settings
        self._max_bytes = settings.max_bytes
        self._never = tuple(never)
        self.left_out: Mapping[str, int] = {}  # see Connector

    def discover(
        self, since: str | None, under: Sequence[str] | None = None
    ) -> Iterator[Item | Problem]:
        """Implement `Connector.discover`. Folders come in depth-first order, names sorted.

        No Cursor is returned, because listing all names is cheap. The paths in `under` need not
        exist, and the ignore files of their parent folders apply as in a full listing. Raises
        ValueError for an id that leads out of the folder.
        """
        return self._walk(_build_scope(under))

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`. Never follows a link, waits for a pipe or reads more than
        `max_bytes`."""
        try:
            _split_components(item.id)
        except ValueError as error:
            raise ItemUnreadable(
                f"Cannot read {item.id!r}",
                str(error),
                "This is a bug in hopsyncd. Please report it.",
            ) from error
        content = read_beneath(os.fspath(self._root), item.id, self._max_bytes)
        return Fetched(
            content.data,
            content.revision,
            guess_media_type(item.id),
            modified_ms=content.modified_ms,
        )

    def explain_left_out(self, id_: str) -> tuple[str, str] | None:
        """Explain why a path in the folder is not listed, and what to do. Returns None if it is
        listed or does not exist. Raises SourceUnavailable."""
        levels: tuple[Level, ...] = ()
        root = self._enter()
        try:
            for path in list_prefixes(id_):
                above, _, name = path.rpartition("/")
                descriptor = root.folders.enter(above)
                _, levels = _list_names(descriptor, _Folder(above, levels, {name: None}))
                entry = _Entry(descriptor, name, path)
                is_folder = stat.S_ISDIR(entry.read_state().st_mode) or entry.leads_to_folder()
                result = self._classify(root, entry, levels, None)
                if isinstance(result, Problem):
                    return result.why, result.hint
                if result is None:
                    return (
                        None
                        if path in root.never
                        else self._explain_excluded(path, is_folder, levels)
                    )
        except (OSError, ValueError):
            return None
        finally:
            root.folders.close()
        return None

    def _explain_excluded(
        self, id_: str, is_folder: bool, levels: tuple[Level, ...]
    ) -> tuple[str, str]:
        """Explain why the rules exclude a path, and how to include it."""
        shown_path = f"{id_}/" if is_folder else id_
        bring_back = f'Add "!{shown_path}" to `ignore` of the source in config.toml to have it read'
        if self._rules.hides_for_dot(id_, is_folder, levels):
            return f"the name of the folder {shown_path} begins with a dot", bring_back
        if self._rules.looks_secret(id_, is_folder):
            add = f'Add "{shown_path}" to `not_secret` of the source in config.toml to have it read'
            return f"the name of {shown_path} looks like a secret", add
        if self._rules.forbids(id_, is_folder):
            move = "Move the file to another folder, or remove the pattern from `deny`"
            return (
                f"`deny` of the source, or a rule for version control, excludes {shown_path}",
                move,
            )
        if self._rules.hides(id_, is_folder, levels):
            return (
                f"an ignore file, `ignore` or a built-in pattern excludes {shown_path}",
                bring_back,
            )
        kind = name_kind(id_)
        pattern = f"*{kind}" if kind.startswith(".") else id_.rpartition("/")[2]
        listed = ", ".join(f'"{part}"' for part in (*self._settings.include, pattern))
        return (
            f"`include` of the source names no files like {pattern}",
            f"Write include = [{listed}] in the source in config.toml to have them read",
        )

    def close(self) -> None:
        """Do nothing: no resource stays open."""

    def is_noise(self, id_: str) -> bool:
        """Whether changes of the path `id_` can be ignored. Does not read the disk.

        Use this method only for the watcher's events: it treats files as folders, and does not read
        ignore files. If an ignore file includes a path that this method rejects, only the next full
        scan notices changes of that path.
        """
        never = _find_ids_beneath(os.path.realpath(self._root), self._never)
        noise = [
            path
            for path in list_prefixes(id_)
            if path in never or self._rules.hides(path, True, ())
        ]
        # The path may be a file whose name begins with a dot.
        if noise == [id_] and id_ not in never:
            return not self._rules.hides_for_dot(id_, True, ())
        return bool(noise)

    def _walk(self, scope: Scope) -> Iterator[Item | Problem]:
        root = self._enter()
        try:
            stack = [_Folder("", (), scope)]
            while stack:
                below = []
                for result in self._list(root, stack.pop()):
                    if isinstance(result, _Folder):
                        below.append(result)
                    else:
                        yield result
                stack.extend(reversed(below))
        finally:
            root.folders.close()
        self._check_still_there(root)
        if scope is None:
            self.left_out = dict(root.left_out.most_common(_MOST_SUFFIXES))

    def _list(self, root: _Root, folder: _Folder) -> Iterator[Item | Problem | _Folder]:
        try:
            descriptor = root.folders.enter(folder.id)
            names, levels = _list_names(descriptor, folder)
        except OSError as error:
            if error.errno in GONE:
                self._check_still_there(root)
                return
            if not folder.id:
                raise self._unavailable_error(error) from error
            yield _read_problem(folder.id, error, subtree=True)
            return
        for name in names:
            scope = None if folder.scope is None else folder.scope[name]
            id_ = f"{folder.id}/{name}" if folder.id else name
            result = self._classify(root, _Entry(descriptor, name, id_), levels, scope)
            if result is not None and (scope is None or _reaches_below(result)):
                yield result

    def _classify(
        self, root: _Root, entry: _Entry, levels: tuple[Level, ...], scope: Scope
    ) -> Item | Problem | _Folder | None:
        """Return the item, problem or folder at an entry. Returns None if the entry is not a
        document or has disappeared."""
        id_ = entry.id
        if id_ in root.never:
            return None
        try:
            state = entry.read_state()
        except OSError as error:
            return None if error.errno in GONE else _read_problem(id_, error, subtree=True)
        kind = stat.S_IFMT(state.st_mode)
        is_folder = kind == stat.S_IFDIR or (kind == stat.S_IFLNK and entry.leads_to_folder())
        if self._rules.hides(id_, is_folder, levels):
            if self._rules.hides_for_dot(id_, is_folder, levels):
                root.left_out[HIDDEN_FOLDERS] += 1
            elif self._rules.looks_secret(id_, is_folder):
                root.left_out[SECRET_FOLDERS if is_folder else SECRET + name_kind(id_)] += 1
            return None
        if not is_folder and kind in (stat.S_IFREG, stat.S_IFLNK) and not self._rules.includes(id_):
            root.left_out[name_kind(id_)] += 1
            return None
        if id_ != escape_id(id_):
            hint = "Rename the file or folder, for example with convmv."
            return Problem(escape_id(id_), "the name is not UTF-8", hint, is_folder)
        if kind == stat.S_IFLNK:
            return _check_link(root, entry, is_folder)
        if is_folder and (len(id_) > MAX_ID_CHARACTERS or id_.count("/") >= MAX_DEPTH):
            return _report_too_deep(id_)
        return _Folder(id_, levels, scope) if is_folder else self._classify_file(entry, state)

    def _classify_file(self, entry: _Entry, state: os.stat_result) -> Item | Problem:
        id_ = entry.id
        if not stat.S_ISREG(state.st_mode):
            return Problem(id_, "not a regular file, but a pipe, socket or device", _IGNORE_IT)
        if problem := self._settings.describe_size_problem(id_, state.st_size):
            why, hint = problem
            return Problem(id_, why, _AS_MAILBOX if guess_media_type(id_) == MBOX else hint)
        if not entry.is_readable(state):
            return _read_problem(id_, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        return Item(id_, format_revision(state), state.st_size)

    def _enter(self) -> _Root:
        real = os.path.realpath(self._root)
        try:
            folders = OpenFolders(real)
        except OSError as error:
            raise self._unavailable_error(error) from error
        inside = [path for path in self._never if _is_within(real, os.path.realpath(path))]
        if inside:
            folders.close()
            raise SourceUnavailable(
                f"Cannot list the folder {self._root}",
                f"the folder is inside hopsyncd's own data at {inside[0]}",
                "Choose another folder as `path` of this source in config.toml.",
            )
        state = os.fstat(folders.root)
        never = _find_ids_beneath(real, self._never)
        return _Root(real, state.st_dev, state.st_ino, never, folders, Counter())

    def _check_still_there(self, root: _Root) -> None:
        """Raise SourceUnavailable if the root was unmounted or replaced."""
        try:
            state = self._root.stat()
        except OSError as error:
            raise self._unavailable_error(error) from error
        if (state.st_dev, state.st_ino) != (root.device, root.inode):
            raise SourceUnavailable(
                f"Cannot list the folder {self._root}",
                "the folder was unmounted or replaced during the listing",
                "Mount the folder again. Indexed documents stay searchable, and the next scan"
                " starts over.",
            )

    def _unavailable_error(self, error: OSError) -> SourceUnavailable:
        hints = {
            FileNotFoundError: "Mount or create the folder, or correct `path` of this source in",
            NotADirectoryError: "Set `path` of this source to the folder with the file, in",
            PermissionError: "Give the daemon's user read permission, or choose another folder in",
        }
        hint = hints.get(type(error), "Check the disk or its mount, and `path` of this source in")
        return SourceUnavailable(
            f"Cannot list the folder {self._root}",
            _describe_error(error),
            f"{hint} config.toml. Indexed documents stay searchable.",
        )


def widen_changed_ids(ids: Sequence[str]) -> list[str] | None:
    """Return the ids to list again after these ids changed, or None to list everything.

    If an ignore file has changed, its whole folder is listed again.
    """
    scopes = dict.fromkeys(
        id_.rpartition("/")[0] if id_.rpartition("/")[2] in IGNORE_FILES else id_ for id_ in ids
    )
    return None if "" in scopes else [*scopes]


_AS_MAILBOX = (
    "Add the mailbox as a separate source, which reads one message at a time: `hopsyncd add PATH`. "
    "Or raise `max_bytes` of this source in config.toml, or add the mailbox to `ignore`."
)
_IGNORE_IT = "Move the file out of the folder, or add it to `ignore`."


def _list_names(descriptor: int, folder: _Folder) -> tuple[list[str], tuple[Level, ...]]:
    """Return the sorted names to list in a folder, and the ignore files that apply to them. Raises
    OSError."""
    if folder.scope is None:
        with os.scandir(descriptor) as entries:
            names = present = sorted(entry.name for entry in entries)
    else:
        names, present = sorted(folder.scope), list(IGNORE_FILES)
    level = read_level(descriptor, folder.id + "/" if folder.id else "", present)
    return names, add_level(folder.levels, level)


def _check_link(root: _Root, entry: _Entry, is_folder: bool) -> Problem | None:
    """Return a Problem if the link leads out of the folder. The Problem contains the link's path
    and the absolute path of its own target, not the end of a chain of links."""
    above = f"{root.path}/{entry.id}".rpartition("/")[0]
    try:
        text = os.readlink(entry.name, dir_fd=entry.folder)
    except OSError:
        return None
    target = text if text.startswith("/") else f"{above}/{text}"
    if _is_within(os.path.realpath(target), root.path):
        return None
    return Problem(
        entry.id,
        f"the symbolic link leads out of the folder, to {escape_id(os.path.normpath(target))}",
        "Add the link's target as a separate source, or add the link to `ignore`.",
        subtree=is_folder,
    )


def _report_too_deep(id_: str) -> Problem:
    return Problem(
        id_[:MAX_ID_CHARACTERS],
        f"the folder is more than {MAX_DEPTH:,} levels deep, or its path has more than "
        f"{MAX_ID_CHARACTERS:,} characters",
        "Move the folder's contents closer to the top of the source, or add the folder to"
        " `ignore`.",
        subtree=True,
    )


def _read_problem(id_: str, error: OSError, subtree: bool = False) -> Problem:
    hint = (
        "Give the daemon's user read permission, or add the path to `ignore`."
        if isinstance(error, PermissionError)
        else "The next scan tries again. Check the disk if the error persists."
    )
    return Problem(escape_id(id_), _describe_error(error), hint, subtree)


def _reaches_below(result: Item | Problem | _Folder) -> bool:
    """Whether the result concerns paths below its own path: it is a folder, or a problem with a
    subtree."""
    return isinstance(result, _Folder) or (isinstance(result, Problem) and result.subtree)


def _build_scope(under: Sequence[str] | None) -> Scope:
    """Convert ids to a tree of their path components.

    >>> _build_scope(["a/b.md", "a/c", "d"])
    {'a': {'b.md': None, 'c': None}, 'd': None}
    """
    if under is None or "" in under:
        return None
    tree: dict[str, Scope] = {}
    for id_ in under:
        *folders, name = _split_components(id_)
        node: Scope = tree
        for part in folders:
            node = node.setdefault(part, {}) if node is not None else None
        if node is not None:
            node[name] = None
    return tree


def _split_components(id_: str) -> list[str]:
    """Split an id into its path components. Raises ValueError unless it is a path below
    the root."""
    parts = id_.split("/")
    if "\0" in id_ or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"{id_!r} is not a relative path inside the folder")
    return parts


def _find_ids_beneath(root: str, paths: Sequence[Path]) -> frozenset[str]:
    reals = (os.path.realpath(path) for path in paths)
    return frozenset(real[len(root) :].lstrip("/") for real in reals if _is_within(real, root))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _describe_error(error: OSError) -> str:
    """Return the system's error message. If the error concerns an ignore file, the message begins
    with the file's name."""
    name = os.fsdecode(error.filename or "").rpartition("/")[2]
    why = (error.strerror or str(error)).lower()
    return f"the ignore file {name}: {why}" if name in IGNORE_FILES else why
