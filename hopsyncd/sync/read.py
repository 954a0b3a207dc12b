"""Reading: from a planned fetch to the passages of one document, or to the reason it has none."""

from collections.abc import Container
from dataclasses import dataclass

import structlog

from connectors.errors import ConnectorError, ItemUnreadable, ItemVanished
from connectors.protocol import Connector, Fetched, Item
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.text.blocks import with_title
from hopsyncd.text.chunk import chunk
from hopsyncd.text.extract import Extract
from store.records import Document, Passage, Placement, Seen, content_hash

log = structlog.get_logger(__name__)

CHUNKER = "chunk/2"  # raised when documents would be read or cut differently
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
    extract: Extract,
) -> Reading | None:
    """Fetch and chunk one item; contents whose hash is `settled` change nothing.

    None when the item vanished meanwhile: the next scan decides what that means. Raises
    SourceUnavailable.
    """
    try:
        fetched = _fetched(connector, item)
    except ItemVanished:
        return None
    except ItemUnreadable as problem:
        return Reading(Seen(source, item.id, RETRY, None, problem.why, problem.hint))
    content = _content_of(fetched)
    seen = Seen(source, item.id, fetched.revision, content)
    if content in settled:
        return Reading(seen)
    try:
        blocks = extract(fetched.data, fetched.media_type)
        chunks = chunk(with_title(blocks, fetched.title or "", 1), passage_tokens)
    except DocumentUnreadable as problem:
        return Reading(Seen(source, item.id, fetched.revision, content, problem.why, problem.hint))
    passages = tuple(Passage(piece.heading, piece.text) for piece in chunks)
    placements = tuple(
        Placement(passage.id, piece.first_line, piece.last_line)
        for passage, piece in zip(passages, chunks, strict=True)
    )
    document = Document(source, item.id, content, fetched.media_type, placements)
    return Reading(seen, ReadDocument(document, passages))


def _fetched(connector: Connector, item: Item) -> Fetched:
    try:
        return connector.fetch(item)
    except ConnectorError:
        raise
    except Exception as error:
        # One item that its connector stumbles over must not keep the others from being read.
        kind = type(connector).__name__
        log.error("a connector failed", connector=kind, item=item.id, exc_info=error)
        raise ItemUnreadable(
            f"Cannot read {item.id!r}",
            f"its connector failed ({type(error).__name__}: {error})",
            f"The log has the details for those who look after {kind}.",
        ) from error


def _content_of(fetched: Fetched) -> bytes:
    """The hash of what the document says; a title that its source gives belongs to that."""
    if fetched.title is None:
        return content_hash(fetched.data)
    return content_hash(fetched.title.encode("utf-8", "backslashreplace") + b"\0" + fetched.data)
