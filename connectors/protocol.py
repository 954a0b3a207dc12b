"""The seam between a source and the rest: listings of items, and the bytes of one item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """One document that a source has now.

    `id` is unique in its source (for a folder: the path relative to the root, with `/`).
    `revision` is opaque: equal revisions mean "nothing to fetch", and nobody parses it. An empty
    one means that the source cannot tell: the item is fetched at every listing that names it.
    `size_bytes` is 0 where a listing does not tell it.
    """

    id: str
    revision: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something listed that cannot be used. What was indexed of it stays as it was.

    With `subtree` the problem covers every item whose id starts with `id + "/"`
    (`id` empty: the whole source).
    """

    id: str
    why: str
    hint: str
    subtree: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """An item that was there at the cursor and is not any more. Only listings since one say so."""

    id: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next listing can begin; the last thing that a listing yields, if it can say so.

    `value` is opaque outside of its connector, and small (under 1 MiB). All that the listing could
    not name comes again in one that begins there; where that cannot be said, there is no Cursor.
    """

    value: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The content of one item, with the revision that these very bytes had.

    `media_type` is a MIME type such as `text/markdown`; `title` is None where the source has none.
    `links` are the ids or addresses that the item names explicitly.
    `origin` tells people more of this revision, by the keys author, date (ISO 8601), commit, url
    (where it was found in the end) and message_id.
    """

    data: bytes
    revision: str
    media_type: str
    title: str | None = None
    links: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)


def iso_date(unix_ms: int | None) -> str:
    """A time as ISO 8601 in UTC, empty where there is none that has a date.

    >>> iso_date(0)
    '1970-01-01T00:00:00+00:00'
    """
    try:
        return "" if unix_ms is None else datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


Found = Item | Gone | Problem | Cursor


class Connector(Protocol):
    """What a kind of source implements. Memory stays bounded: listings stream."""

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Yield what the source has now, streaming.

        Without `since` the listing is of everything: when it ends without an exception it was
        complete, and what it did not name is gone. With the value of an earlier Cursor it may name
        only what changed since, and what is Gone; one that cannot be used any more raises
        CursorExpired, and everything is listed. `under` restricts the listing to these items or
        folders of items; where a connector cannot, it lists everything.
        Raises SourceUnavailable when the listing cannot be completed.
        """
        ...

    def fetch(self, item: Item) -> Fetched:
        """Read one item. Raises ItemVanished, ItemUnreadable or SourceUnavailable."""
        ...

    def close(self) -> None:
        """Release what the connector holds."""
        ...
