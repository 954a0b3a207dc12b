"""Defines the Connector protocol for every kind of source: items, cursors and errors.

ConnectorError
├── SourceUnavailable   the source cannot be listed now: pause it, and keep its data
├── CursorExpired       a listing can no longer begin at the cursor: list everything
├── ItemVanished        the item was listed but is gone: the next scan removes it
└── ItemUnreadable      the item exists but cannot be used: report it, keep its last good version
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")

_MAX_CURSOR_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Item:
    """One document that is currently in a source.

    `id` is unique within its source (for a folder: the path relative to the root, with `/`).
    `revision` is opaque: an unchanged revision means unchanged content, which is not fetched again.
    If the source has no revisions, `revision` is empty, and the item is fetched after every listing
    that contains it. `size_bytes` is 0 if unknown.
    """

    id: str
    revision: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """An item that is listed but cannot be used. Its last indexed version is kept.

    If `subtree` is true, the problem concerns every item whose id starts with `id + "/"`. An empty
    `id` is the whole source.
    """

    id: str
    why: str
    hint: str
    subtree: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """An item that was removed since the cursor. Only listings that begin at a cursor yield it."""

    id: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """The point at which the next listing can begin. A Cursor is the last result that a listing
    yields.

    Only the connector that made the Cursor interprets `value`, which must be small (under 1 MiB). A
    listing that begins at a Cursor must also contain every item that the earlier listing could not
    read. A connector that cannot guarantee this yields no Cursor.
    """

    value: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The content of an item, and the revision of exactly these bytes.

    `media_type` is a MIME type such as `text/markdown`. `title` is None if the source states none.
    `links` are the ids or addresses to which the item refers explicitly. `origin` describes this
    revision to people: author, date (ISO 8601), commit, url (after redirects) and message_id.
    `modified_ms` is when the content was written (Unix ms), and is used if `origin` has no date.
    """

    data: bytes
    revision: str
    media_type: str
    title: str | None = None
    links: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)
    modified_ms: int | None = None


def format_iso_date(unix_ms: int | None) -> str:
    """Format a time as ISO 8601 in UTC. Returns "" if the time is None or outside the calendar.

    >>> format_iso_date(0)
    '1970-01-01T00:00:00+00:00'
    """
    try:
        return "" if unix_ms is None else datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


Found = Item | Gone | Problem | Cursor


HIDDEN_FOLDERS = "hidden folders"
SECRET = "secret: "
"""The prefix of the keys in `left_out` that count secrets."""
SECRET_FOLDERS = f"{SECRET}folders"


class Connector(Protocol):
    """Lists and fetches the items of one kind of source. Listings are streamed to limit memory use.

    A connector may have an attribute `left_out`, with the numbers of files and folders that the
    last complete listing left out. Files of other types are counted by suffix, and files that look
    like secrets under SECRET and their suffix. Folders that look like secrets are counted under
    SECRET_FOLDERS, and folders whose name begins with a dot under HIDDEN_FOLDERS. After a listing
    of changes only, the counts stay as they were. None means that no complete listing has ended.
    """

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Yield the current items of the source, problems, and at most one Cursor.

        Without `since`, the listing is complete: if it ends without an exception, items that it did
        not yield no longer exist. With the value of an earlier Cursor as `since`, the listing may
        yield only the items that have changed since then, and Gone items. If the Cursor can no
        longer be used, CursorExpired is raised, and the caller must list everything. `under`
        restricts the listing to these items or folders of items; a connector that does not support
        `under` lists everything. Raises SourceUnavailable if the listing cannot be completed.
        """
        ...

    def fetch(self, item: Item) -> Fetched:
        """Read an item. Raises ItemVanished, ItemUnreadable or SourceUnavailable."""
        ...

    def close(self) -> None:
        """Release the connector's resources."""
        ...


class ConnectorError(Exception):
    """The base class of connector errors.

    `what` is what failed, `why` the reason, and `hint` what the user can do.
    """

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class SourceUnavailable(ConnectorError):
    """The source cannot be listed completely, so unlisted items may still exist."""


class CursorExpired(ConnectorError):
    """The cursor can no longer be used: it is unreadable, the settings or an ignore file have
    changed, or the source's history was rewritten."""


class ItemVanished(ConnectorError):
    """The item disappeared between its listing and its fetch."""


class ItemUnreadable(ConnectorError):
    """The item exists but cannot be read or indexed."""


def vanished_error(id_: str) -> ItemVanished:
    """Make the error for an item that no longer exists when it is fetched."""
    return ItemVanished(
        f"Cannot read {id_!r}", "the document no longer exists", "The next scan updates the index."
    )


def escape_id(text: str) -> str:
    """Replace each byte that is not UTF-8 with a backslash escape, so that `text` can be stored."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Selection:
    """The items to list: all items if `under` is None, or else the named items and everything below
    the named paths. Lookups are fast even with thousands of ids.

    >>> parts = Selection(["a/b", "c.md"])
    >>> [parts.has(id_) for id_ in ("a/b/x.md", "a/b", "a/bc.md", "c.md")]
    [True, True, False, True]
    >>> [parts.leads_to(folder) for folder in ("a", "a/b/x", "d")]
    [True, True, False]
    """

    def __init__(self, under: Sequence[str] | None) -> None:
        self._wanted = frozenset(("",) if under is None else under)
        self._above = frozenset(folder for part in self._wanted for folder in list_prefixes(part))

    def has(self, id_: str) -> bool:
        """Whether the item is selected: it is a named item, or is below a named path."""
        return "" in self._wanted or any(part in self._wanted for part in list_prefixes(id_))

    def leads_to(self, folder: str) -> bool:
        """Whether the folder may contain selected items."""
        return folder in self._above or self.has(folder)


def list_prefixes(path: str) -> list[str]:
    """Return the paths of the folders above a path, topmost first, and the path itself.

    >>> list_prefixes("a/b/c.md"), list_prefixes("")
    (['a', 'a/b', 'a/b/c.md'], [])
    """
    ends = [end for end, letter in enumerate(path) if letter == "/"]
    return [*(path[:end] for end in ends), path] if path else []


def compute_mark(*settings: object) -> str:
    """Compute a digest of settings. A different digest shows that the settings have changed.

    >>> compute_mark("imap.example.org", 993) == compute_mark("imap.example.org", 143)
    False
    """
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]


def make_cursors(mark: str, known_states: Mapping[str, object]) -> Iterator[Cursor]:
    """Yield a Cursor that contains `mark` and `known_states`. Yields nothing if its JSON
    would be longer than a million characters."""
    value = json.dumps([mark, known_states])
    if len(value) <= _MAX_CURSOR_CHARACTERS:
        yield Cursor(value)


def parse_known(since: str, mark: str, where: str, read: Callable[[Any], _T]) -> dict[str, _T]:
    """Return the entries of the Cursor `since`, with each value parsed by `read`.

    Raises CursorExpired if the Cursor is unreadable or has another `mark`. `where` names the source
    in the error.
    """

    def expired_error(why: str) -> CursorExpired:
        return CursorExpired(
            f"Cannot list the changes at {where}", why, "The whole source is listed instead."
        )

    try:
        made_with, values = json.loads(since)
        known_states = {str(name): read(value) for name, value in values.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise expired_error("the cursor cannot be read") from error
    if made_with != mark:
        raise expired_error("the settings of the source have changed")
    return known_states
