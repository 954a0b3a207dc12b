"""Reads a document: from a planned fetch to its passages, or the reason for having none."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from connectors.protocol import (
    Connector,
    ConnectorError,
    Fetched,
    Item,
    ItemUnreadable,
    ItemVanished,
    iso_date,
)
from hopsyncd import __version__
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import (
    Block,
    in_one_line,
    link_to_name,
    names_of,
    skipped_of,
    title_from_path,
    with_title,
)
from hopsyncd.formats.chunking import Chunk, chunks
from hopsyncd.formats.content_type import type_of_content
from hopsyncd.formats.readers import Extract
from hopsyncd.formats.sandbox.tesseract import Tesseract
from hopsyncd.ingest.plan import AGAIN, RETRY, Scope, Source, Step
from hopsyncd.ingest.source_thread import YieldToEdits, in_turns, run_to_end
from store.contract import Connection
from store.reads import live_document
from store.records import Document, Link, Occurrence, Passage, Seen, content_hash
from store.sources import excluded_paths, pins_of

log = structlog.get_logger(__name__)

CHUNKER = "chunk/34"  # raised when documents would be read or cut differently
READER = f"hopsyncd {__version__}, {CHUNKER}"  # another may read what this one could not
_MAX_ORIGIN_CHARACTERS = 1000
_MARKUP = re.compile(rb"<[^<>]*>")
_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_NO_TEXT = "it has content, but no text could be read from it"


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document and its passages in order of appearance."""

    document: Document
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one fetch; `read` is None if the head has this content already.

    If it `waits`, the machine lacks a reader now, and the next scan tries again.
    """

    seen: Seen
    read: ReadDocument | None = None
    waits: bool = False


def rules_of(passage_tokens: int, tesseract: Tesseract | None = None) -> str:
    """Identifies how documents become passages. If it changes, all are read again."""
    return f"{CHUNKER}:{passage_tokens}" + (f":{tesseract.languages}" if tesseract else "")


def read_step(
    connection: Connection,
    source: Source,
    scope: Scope,
    step: Step,
    passage_tokens: int,
    extract: Extract,
    yield_to_edits: YieldToEdits = lambda: None,
) -> Reading | None:
    """Fetch an item and split it into passages; None if the head is up to date.

    None when the item vanished meanwhile or was purged: another listing decides what that means.
    Raises SourceUnavailable.
    """
    item = step.item
    if item is None or item.id in excluded_paths(connection, source.id, [item.id]):
        return None
    pinned = pins_of(connection, source.id, [item.id]).get(item.id)
    live = live_document(connection, source.id, item.id)
    try:
        fetch = in_turns(partial(_fetch, source.connector, item), source.caller, yield_to_edits)
        fetched = run_to_end(fetch)
    except ItemVanished:
        return None
    except ItemUnreadable as problem:
        return Reading(Seen(source.id, item.id, RETRY, None, problem.why, problem.hint))
    content, origin = _content_of(fetched), _origin_text(fetched)
    seen = Seen(source.id, item.id, fetched.revision, content)
    # An item that failed last time may be indexed by older rules.
    by_old_rules = scope.afresh or step.reason == AGAIN
    told = (content, fetched.media_type, origin)
    is_live = live is not None and told == (live.content, live.media_type, live.origin)
    if content == pinned or (is_live and not by_old_rules):
        return Reading(seen)
    try:
        blocks = extract(fetched.data, fetched.media_type)
    except DocumentUnreadable as problem:
        return Reading(replace(seen, why=problem.why, hint=problem.hint))
    except ReaderUnavailable as problem:
        seen = Seen(source.id, item.id, RETRY, None, problem.why, problem.hint)
        return Reading(seen, waits=True)
    seen = replace(seen, skipped=json.dumps(skipped_of(blocks), sort_keys=True))
    title = fetched.title or ""
    if not title and fetched.media_type == "text/markdown":  # notes have their title as their name
        title = title_from_path(item.id, blocks)
    pieces = _cut(with_title(blocks, title, 1), passage_tokens, yield_to_edits)
    passages = tuple(Passage(piece.heading, piece.text) for piece in pieces)
    occurrences = tuple(
        Occurrence(passage.id, piece.first_line, piece.last_line, links)
        for passage, piece, links in zip(passages, pieces, _links(pieces, fetched), strict=True)
    )
    names, properties = names_of(blocks, fetched.title), _properties(blocks, fetched)
    if live is not None and is_live:  # only touched, or read by other rules
        properties = _with_date_of(properties, live.properties)
    document = Document(
        source.id, item.id, content, fetched.media_type, occurrences, names, origin, properties
    )
    if not passages and _has_content(fetched.data):
        seen = replace(seen, why=_NO_TEXT, hint=_no_text_hint(blocks))
    return Reading(seen, None if document == live else ReadDocument(document, passages))


def _no_text_hint(blocks: Sequence[Block]) -> str:
    """The hint for a document without text: what was left out, and what to do."""
    skipped = ", ".join(f"{kind} ({count})" for kind, count in sorted(skipped_of(blocks).items()))
    left_out = f"Left out on purpose: {skipped}. " if skipped else ""
    return f"{left_out}Add it to `ignore` if it is no document"


def _has_content(data: bytes) -> bool:
    """Whether text has a letter or digit outside tags; binary data always has content."""
    return _WORD.search(_MARKUP.sub(b" ", data)) is not None


def _cut(blocks: Sequence[Block], passage_tokens: int, yield_to_edits: YieldToEdits) -> list[Chunk]:
    pieces: list[Chunk] = []
    for piece in chunks(blocks, passage_tokens):
        pieces.append(piece)
        yield_to_edits()
    return pieces


def _links(pieces: Sequence[Chunk], fetched: Fetched) -> Iterator[tuple[Link, ...]]:
    """The links of each passage, one per target; the first also has the source's links."""
    told = {link.target for piece in pieces for link in piece.links}
    placeless = [link for target in fetched.links if (link := link_to_name(target))]
    for at, piece in enumerate(pieces):
        more = [link for link in placeless if at == 0 and link.target not in told]
        shown: dict[str, str] = {}
        for link in (*piece.links, *more):
            shown.setdefault(link.target, link.text)
        yield tuple(Link(target, text) for target, text in shown.items())


Properties = tuple[tuple[str, str], ...]


def _properties(blocks: Sequence[Block], fetched: Fetched) -> Properties:
    """The properties in the document, and its date, if its source knows it."""
    said = {
        (name, in_one_line(value))
        for block in blocks
        if block.kind != "skipped"
        for name, value in block.properties
    }
    date = fetched.origin.get("date") or iso_date(fetched.modified_ms)
    if date and not any(name == "modified" for name, _ in said):
        said.add(("modified", date))
    return tuple(sorted(said))


def _with_date_of(properties: Properties, live: Properties) -> Properties:
    kept = [pair for pair in live if pair[0] == "modified"]
    if not kept:
        return properties
    return tuple(sorted([*(pair for pair in properties if pair[0] != "modified"), *kept]))


def _fetch(connector: Connector, item: Item) -> Fetched:
    try:
        fetched = connector.fetch(item)
    except ConnectorError:
        raise
    except Exception as error:
        # If a connector fails on one item, the others are still read.
        kind = type(connector).__name__
        log.error("a connector failed", connector=kind, item=item.id, exc_info=error)
        raise ItemUnreadable(
            f"Cannot read {item.id!r}",
            f"its connector failed ({type(error).__name__}: {error})",
            f"The log has the details for the maintainers of {kind}.",
        ) from error
    return replace(fetched, media_type=type_of_content(fetched.data, fetched.media_type))


def _origin_text(fetched: Fetched) -> str:
    origin = {key: text[:_MAX_ORIGIN_CHARACTERS] for key, text in fetched.origin.items() if text}
    told = json.dumps(origin, ensure_ascii=False, sort_keys=True)
    return told.encode("utf-8", "replace").decode()


def _content_of(fetched: Fetched) -> bytes:
    """The hash of the content, title and links."""
    if fetched.title is None and not fetched.links:
        return content_hash(fetched.data)
    told = "\n".join([fetched.title or "", *fetched.links])
    return content_hash(told.encode("utf-8", "backslashreplace") + b"\0" + fetched.data)
