"""Reads a folder through fsspec (S3, GCS, Azure, SFTP, WebDAV, SMB, GitHub ...) as a source.

Items are selected as in a local folder, with ignore files. Links are skipped. A listing requests
one folder at a time and keeps only that folder in memory. No Cursor is returned, because these
systems do not report changes.
"""

import email.utils
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from connectors.ignore import (
    IGNORE_FILES,
    MAX_IGNORE_FILE_BYTES,
    Level,
    Patterns,
    TooManyPatterns,
    add_level,
    parse_patterns,
)
from connectors.media_type import guess_media_type
from connectors.protocol import (
    Fetched,
    Item,
    ItemUnreadable,
    Problem,
    Selection,
    escape_id,
    vanished_error,
)
from connectors.regular_file import check_size, check_text, describe_too_large
from connectors.remote_driver import Driver, Facts
from connectors.settings import FileSettings

# Fields that identify a content, the most reliable first. They are only compared for equality: an
# S3 ETag need not be an MD5.
_MARKS = (
    *("ETag", "etag", "sha", "blob_id", "content_hash", "md5Hash", "md5Checksum"),
    *("generation", "version_id", "VersionId"),
)
_TIMES = (
    *("mtime", "LastModified", "last_modified", "modified", "modifiedTime", "modificationTime"),
    *("last_write_time", "updated", "modify", "created"),
)
_TICK_S = 0.02
_COARSE_TICK_S = 1.0
_ATTEMPTS = 3
_GONE = (FileNotFoundError, NotADirectoryError)
_MAX_DEPTH = 100
_PLACE = "Correct `url` of this source in config.toml. Indexed documents stay searchable."
_SHORTEN = "Shorten the ignore file."
_RAISE = (
    "Move the folder's contents closer to the top of the source, or add the folder to `ignore`."
)
_RENAME = "Rename the file or folder, or add it to `ignore`."
_FORBIDDEN = (
    "the configured credentials do not allow reading this path",
    "Renew the credentials, or set other credentials in `options` of this source in config.toml.",
)


def format_revision(facts: Mapping[str, Any]) -> str:
    """Return a revision that changes with the content: the file's size, and the first available
    hash, version or time.

    The result is empty if the driver supplies none of these. In that case, changes cannot be
    detected.

    >>> format_revision({"ETag": '"5d41"', "size": 5})
    'ETag=5d41 5'
    """
    size = get_size(facts)
    for key in _MARKS:
        if facts.get(key):
            mark = str(facts[key]).removeprefix("W/").strip('"')
            return f"{key}={mark} {size}"
    seconds = get_modified_s(facts)
    return "" if seconds is None else f"{seconds:.6f} {size}"


def get_size(facts: Mapping[str, Any]) -> int:
    """Return the size of a file in bytes, or 0 if the driver does not supply it."""
    size = facts.get("size")
    return int(size) if isinstance(size, int | float) and size >= 0 else 0


def get_modified_s(facts: Mapping[str, Any]) -> float | None:
    """Return when the file was last written (Unix time), or None if the driver does not supply that
    time.

    >>> get_modified_s({"LastModified": "2026-11-21T19:49:14Z"})
    1795290554.0
    """
    return next((s for key in _TIMES if (s := _to_seconds(facts.get(key))) is not None), None)


def choose_clock_tick_s(facts: Mapping[str, Any]) -> float:
    """Return the resolution of the file's timestamp in seconds. A second write of the same size
    within that time may go unnoticed."""
    seconds = get_modified_s(facts)
    if seconds is None or any(facts.get(key) for key in _MARKS):
        return 0.0
    return _TICK_S if seconds % 1 else _COARSE_TICK_S


def _to_seconds(value: object) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if value < 1e11 else value / 1000  # some drivers return milliseconds
    if not isinstance(value, str):
        return None
    for parse in (datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            return parse(value).timestamp()
        except ValueError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is still to be listed, with the ignore files of the folders above it."""

    id: str
    levels: tuple[Level, ...]


class RemoteConnector:
    """Lists and reads the files below the root of an fsspec driver.

    Raises ValueError for an invalid pattern.
    """

    def __init__(self, driver: Driver, settings: FileSettings) -> None:
        self._driver = driver
        self._settings = settings
        self._rules = settings.build_rules()

    def discover(
        self, since: str | None, under: Sequence[str] | None = None
    ) -> Iterator[Item | Problem]:
        """Implement `Connector.discover`. Folders come in depth-first order, names sorted."""
        self._driver.forget()
        parts = Selection(under)
        stack = [_Folder("", ())]
        while stack:
            below = []
            for result in self._list(stack.pop()):
                if isinstance(result, _Folder):
                    if parts.leads_to(result.id):
                        below.append(result)
                elif _is_wanted(result, parts):
                    yield result
            stack.extend(reversed(below))
        self._check_still_there()

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`. If a file is written while it is read, the read is
        repeated."""
        path = self._join_path(item.id)
        try:
            for _ in range(_ATTEMPTS):
                fetched = self._try_to_read(item.id, path)
                if fetched is not None:
                    return fetched
        except _GONE as error:
            raise vanished_error(item.id) from error
        except PermissionError as error:
            raise ItemUnreadable(f"Cannot read {item.id!r}", *_FORBIDDEN) from error
        raise ItemUnreadable(
            f"Cannot read {item.id!r}",
            "the file is still being written",
            "The next scan reads the file.",
        )

    def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def _try_to_read(self, id_: str, path: str) -> Fetched | None:
        """Try to read the file. Returns None if it changed during the attempt."""
        self._driver.forget()
        before = self._driver.read_facts(path)
        if before.get("type") == "directory":
            raise FileNotFoundError(path)
        check_size(id_, get_size(before), self._settings.max_bytes)
        seconds = get_modified_s(before)
        if seconds is not None:
            # Wait, so that a later write gets a later time and with it another revision.
            wait_s = seconds + choose_clock_tick_s(before) - time.time()
            time.sleep(wait_s if 0 < wait_s <= choose_clock_tick_s(before) else 0)
        data = self._driver.read(path, self._settings.max_bytes + 1)
        check_size(id_, len(data), self._settings.max_bytes)
        self._driver.forget()
        after = self._driver.read_facts(path)
        revision = format_revision(after)
        if get_modified_s(after) != seconds or format_revision(before) != revision:
            return None
        check_text(id_, data)
        modified_ms = None if seconds is None else int(seconds * 1000)
        return Fetched(data, revision, guess_media_type(id_), modified_ms=modified_ms)

    def _list(self, folder: _Folder) -> Iterator[Item | Problem | _Folder]:
        try:
            entries = self._driver.list_facts(self._join_path(folder.id))
            levels = add_level(folder.levels, self._read_level(folder, entries))
        except _GONE as error:
            if not folder.id:
                raise self._driver.unavailable_error("the folder does not exist", _PLACE) from error
            self._check_still_there()
            return
        except PermissionError as error:
            if not folder.id:
                raise self._driver.unavailable_error(_FORBIDDEN[0], _FORBIDDEN[1]) from error
            yield Problem(folder.id, *_FORBIDDEN, subtree=True)
            return
        except TooManyPatterns as error:
            if not folder.id:
                raise self._driver.unavailable_error(error.why, _SHORTEN) from error
            yield Problem(folder.id, error.why, _SHORTEN, subtree=True)
            return
        for facts in sorted(entries, key=_get_name):
            result = self._classify(folder, levels, facts)
            if result is not None:
                yield result

    def _classify(
        self, folder: _Folder, levels: tuple[Level, ...], facts: Facts
    ) -> Item | Problem | _Folder | None:
        """Return the item, problem or folder at an entry, or None if it is not a document."""
        is_folder = facts.get("type") == "directory"
        within = facts["name"].strip("/") == self._join_path(folder.id).strip("/")
        if within and not (is_folder and facts["name"].endswith("/")):
            return None  # the entry is the listed folder itself
        name = "" if within else _get_name(facts)
        id_ = f"{folder.id}/{name}" if folder.id else name
        if facts.get("islink") or facts.get("type") not in ("file", "directory"):
            return None
        if not name or name in (".", ".."):
            return Problem(
                id_, "a part of the path is empty or consists only of dots", _RENAME, is_folder
            )
        if self._rules.hides(id_, is_folder, levels):
            return None
        if not is_folder and not self._rules.includes(id_):
            return None
        if id_ != escape_id(id_):
            return Problem(escape_id(id_), "the name is not UTF-8", _RENAME, is_folder)
        if is_folder and id_.count("/") >= _MAX_DEPTH:
            return Problem(id_, f"the folder is more than {_MAX_DEPTH} levels deep", _RAISE, True)
        if is_folder:
            return _Folder(id_, levels)
        if problem := self._settings.describe_size_problem(id_, get_size(facts)):
            return Problem(id_, *problem)
        return Item(id_, format_revision(facts))

    def _read_level(self, folder: _Folder, entries: Sequence[Facts]) -> Level | None:
        """Read the ignore files in a folder.

        Raises TooManyPatterns, or the driver's error if a file cannot be read.
        """
        names = {_get_name(facts) for facts in entries if facts.get("type") == "file"}
        if names.isdisjoint(IGNORE_FILES):
            return None
        plain, git = (
            self._read_patterns(folder, name) if name in names else Patterns(())
            for name in IGNORE_FILES
        )
        return Level(f"{folder.id}/" if folder.id else "", plain, git)

    def _read_patterns(self, folder: _Folder, name: str) -> Patterns:
        id_ = f"{folder.id}/{name}"
        data = self._driver.read(self._join_path(id_), MAX_IGNORE_FILE_BYTES + 1)
        if len(data) > MAX_IGNORE_FILE_BYTES:
            why = describe_too_large(len(data), MAX_IGNORE_FILE_BYTES)[0]
            raise self._driver.unavailable_error(f"{id_.strip('/')}: {why}", _SHORTEN)
        try:
            return parse_patterns(data)
        except TooManyPatterns as error:
            raise TooManyPatterns(f"the ignore file {name}: {error.why}") from error

    def _join_path(self, id_: str) -> str:
        """Return the driver's path for an id. The empty id is the root."""
        root = self._driver.get_root()
        below = id_.strip("/")
        return f"{root}/{below}" if root and below else root or below

    def _check_still_there(self) -> None:
        """Raise SourceUnavailable if the root is missing, because then its files may
        still exist."""
        try:
            self._driver.forget()
            self._driver.read_facts(self._join_path(""))
        except _GONE as error:
            raise self._driver.unavailable_error("the folder no longer exists", _PLACE) from error
        except PermissionError as error:
            raise self._driver.unavailable_error(*_FORBIDDEN) from error


def _get_name(facts: Facts) -> str:
    return str(facts["name"]).rstrip("/").rpartition("/")[2]


def _is_wanted(result: Item | Problem, parts: Selection) -> bool:
    """Whether the selection includes the item or problem `result`. A problem with a folder concerns
    everything in the folder."""
    around = isinstance(result, Problem) and result.subtree
    return parts.has(result.id) or (around and parts.leads_to(result.id))
