"""Reading: from a planned fetch to the passages of one document, or to the reason it has none."""

from collections.abc import Container
from dataclasses import dataclass

from connectors.errors import ItemUnreadable, ItemVanished
from connectors.protocol import Connector, Item
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.text.chunk import chunk
from hopsyncd.text.extract import extract
from store.records import Document, Passage, Placement, Seen, content_hash

CHUNKER = "chunk/1"  # raised when documents would be cut differently
RETRY = ""  # a revision that no item has: the next scan fetches again


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document and its passages in order of appearance."""

    document: Document
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of one fetch: `seen` always, `read` only when the content is new to the head."""

    seen: Seen
    read: ReadDocument | None = None


def rules_of(passage_tokens: int) -> str:
    """Names how documents become passages; another name means that all are read again."""
    return f"{CHUNKER}:{passage_tokens}"


def read(
    connector: Connector,
    source: int,
    item: Item,
    settled: Container[bytes | None],
    passage_tokens: int,
) -> Reading | None:
    """Fetch and chunk one item; contents whose hash is `settled` change nothing.

    None when the item vanished meanwhile: the next scan decides what that means.
    """
    try:
        fetched = connector.fetch(item)
    except ItemVanished:
        return None
    except ItemUnreadable as problem:
        return Reading(Seen(source, item.id, RETRY, None, problem.why, problem.hint))
    content = content_hash(fetched.data)
    seen = Seen(source, item.id, fetched.revision, content)
    if content in settled:
        return Reading(seen)
    try:
        chunks = chunk(extract(fetched.data, fetched.media_type), passage_tokens)
    except DocumentUnreadable as problem:
        return Reading(Seen(source, item.id, fetched.revision, content, problem.why, problem.hint))
    passages = tuple(Passage(piece.heading, piece.text) for piece in chunks)
    placements = tuple(
        Placement(passage.id, piece.first_line, piece.last_line)
        for passage, piece in zip(passages, chunks, strict=True)
    )
    document = Document(source, item.id, content, fetched.media_type, placements)
    return Reading(seen, ReadDocument(document, passages))
