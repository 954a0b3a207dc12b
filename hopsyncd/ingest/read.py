"""Reading: from a planned fetch to the passages of one document, or to the reason it has none."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from connectors.protocol import (
    Connector,
    ConnectorError,
    Fetched,
    Item,
    ItemUnreadable,
    ItemVanished,
)
from hopsyncd import __version__
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import link_to_name, names_of, with_title
from hopsyncd.formats.chunking import Chunk, chunks
from hopsyncd.formats.readers import Extract
from hopsyncd.ingest.source_thread import CallRunner, GiveWay, WriterThread, call
from store.records import Document, Link, Passage, Placement, Seen, content_hash

log = structlog.get_logger(__name__)

CHUNKER = "chunk/4"  # raised when documents would be read or cut differently
READER = f"hopsyncd {__version__}, {CHUNKER}"  # another may read what this one could not
_MAX_ORIGIN_CHARACTERS = 1000
RETRY = ""  # a revision that no item has: the next scan fetches again


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document and its passages in order of appearance."""

    document: Document
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of one fetch: `seen` always, `read` only when the content is new to the head.

    `waits` for a reader that this machine does not have now: the next scan tries again.
    """

    seen: Seen
    read: ReadDocument | None = None
    waits: bool = False


def rules_of(passage_tokens: int) -> str:
    """Names how documents become passages; another name means that all are read again."""
    return f"{CHUNKER}:{passage_tokens}"


def read(
    connector: Connector,
    source: int,
    item: Item,
    pinned: bytes | None,
    live: Document | None,
    passage_tokens: int,
    extract: Extract,
    caller: CallRunner = WriterThread(),  # noqa: B008 - it holds nothing
    give_way: GiveWay = lambda: None,
) -> Reading | None:
    """Fetch and chunk one item; nothing changes where it is as `pinned` says, or as in `live`.

    None when the item vanished meanwhile: the next scan decides what that means. Raises
    SourceUnavailable.
    """
    try:
        fetched = call(caller, lambda: _fetched(connector, item), give_way)
    except ItemVanished:
        return None
    except ItemUnreadable as problem:
        return Reading(Seen(source, item.id, RETRY, None, problem.why, problem.hint))
    content, origin = _content_of(fetched), _origin_text(fetched)
    seen = Seen(source, item.id, fetched.revision, content)
    told = (content, fetched.media_type, origin)
    if content == pinned or (live and told == (live.content, live.media_type, live.origin)):
        return Reading(seen)
    try:
        blocks = extract(fetched.data, fetched.media_type)
    except DocumentUnreadable as problem:
        return Reading(Seen(source, item.id, fetched.revision, content, problem.why, problem.hint))
    except ReaderUnavailable as problem:
        seen = Seen(source, item.id, RETRY, None, problem.why, problem.hint)
        return Reading(seen, waits=True)
    pieces: list[Chunk] = []
    for piece in chunks(with_title(blocks, fetched.title or "", 1), passage_tokens):
        pieces.append(piece)
        give_way()
    passages = tuple(Passage(piece.heading, piece.text) for piece in pieces)
    placements = tuple(
        Placement(passage.id, piece.first_line, piece.last_line, links)
        for passage, piece, links in zip(passages, pieces, _links(pieces, fetched), strict=True)
    )
    names = names_of(blocks, fetched.title)
    document = Document(source, item.id, content, fetched.media_type, placements, names, origin)
    return Reading(seen, ReadDocument(document, passages))


def _links(pieces: Sequence[Chunk], fetched: Fetched) -> Iterator[tuple[Link, ...]]:
    """Those of each passage, one a target; the first has also those that the source tells."""
    told = {link.target for piece in pieces for link in piece.links}
    placeless = [link for target in fetched.links if (link := link_to_name(target))]
    for at, piece in enumerate(pieces):
        more = [link for link in placeless if at == 0 and link.target not in told]
        shown: dict[str, str] = {}
        for link in (*piece.links, *more):
            shown.setdefault(link.target, link.shown)
        yield tuple(Link(target, text) for target, text in shown.items())


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


def _origin_text(fetched: Fetched) -> str:
    origin = {key: text[:_MAX_ORIGIN_CHARACTERS] for key, text in fetched.origin.items() if text}
    told = json.dumps(origin, ensure_ascii=False, sort_keys=True)
    return told.encode("utf-8", "replace").decode()


def _content_of(fetched: Fetched) -> bytes:
    """The hash of what the document says; title and links that its source gives belong to that."""
    if fetched.title is None and not fetched.links:
        return content_hash(fetched.data)
    told = "\n".join([fetched.title or "", *fetched.links])
    return content_hash(told.encode("utf-8", "backslashreplace") + b"\0" + fetched.data)
