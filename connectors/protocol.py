"""The seam between a source and the rest: listings of items, and the bytes of one item."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """One document that a source has now.

    `id` is unique in its source (for a folder: the path relative to the root, with `/`).
    `revision` is opaque: equal revisions mean "nothing to fetch", and nobody parses it.
    """

    id: str
    revision: str
    size_bytes: int


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
class Fetched:
    """The content of one item, with the revision that these very bytes had.

    `media_type` is a MIME type such as `text/markdown`; `title` is None where the source has none.
    """

    data: bytes
    revision: str
    media_type: str
    title: str | None = None


class Connector(Protocol):
    """What a kind of source implements."""

    def discover(self, under: Sequence[str] | None = None) -> Iterator[Item | Problem]:
        """Yield what the source has now, streaming.

        `under` restricts the listing to these items or folders of items. When the iterator ends
        without an exception, the listing was complete: what it did not name is gone.
        Raises SourceUnavailable when that cannot be promised.
        """
        ...

    def fetch(self, item: Item) -> Fetched:
        """Read one item. Raises ItemVanished or ItemUnreadable."""
        ...

    def close(self) -> None:
        """Release what the connector holds."""
        ...
