"""Reads documents, and collects them into the batch of the next version.

`read_step` executes a planned fetch, and returns the document's passages or the reason why it has
none. A `SyncRun` is the state of a sync, with its progress and its `PendingBatch`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import structlog

from connectors.protocol import (
    Connector,
    ConnectorError,
    Fetched,
    Item,
    ItemUnreadable,
    ItemVanished,
    format_iso_date,
)
from hopsyncd import __version__
from hopsyncd.errors import DocumentUnreadable, EncoderUnavailable, ReaderUnavailable
from hopsyncd.formats.blocks import (
    Block,
    count_skipped,
    is_left_out,
    join_lines,
    list_names,
    make_name_link,
    make_title_from_path,
    with_title,
)
from hopsyncd.formats.chats import find_chat_title
from hopsyncd.formats.chunking import Chunk, yield_passages
from hopsyncd.formats.content_type import detect_content_type
from hopsyncd.formats.readers import Extract, refuse_empty
from hopsyncd.formats.sandbox.tesseract import Tesseract
from hopsyncd.ingest.plan import CHANGED, RETRY, Action, Scope, Source, Step
from hopsyncd.ingest.source_thread import WriterThread, YieldToEdits, run_in_turns, run_to_end
from hopsyncd.models.llm.budget import Usage
from store.contract import Connection
from store.reads import find_in_force, find_live_holders, find_live_passages, read_live_document
from store.records import Document, Link, Occurrence, Passage, PassageId, Pin, Seen, hash_content
from store.sources import read_excluded_paths, read_pins
from store.versions import scan_reason

log = structlog.get_logger(__name__)

CHUNKER = "chunk/73"  # Raise this number if documents would be read or split differently.
# Items that a reader could not read are tried again by another reader.
READER = f"hopsyncd {__version__}, {CHUNKER}"
_MAX_ORIGIN_CHARACTERS = 1000
_MARKUP = re.compile(rb"<[^<>]*>")
_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_NO_TEXT = "the file has content, but no text could be read from it"


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document and its passages in order of appearance."""

    document: Document
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a fetch. `seen` is the item's state. `read` is None if the head already has the
    document, if the item has not changed since a restore, or if the item cannot be indexed.
    If `waits` is true, the reader for this format is unavailable, and the next scan tries again.
    """

    seen: Seen
    read: ReadDocument | None = None
    waits: bool = False


def identify_rules(passage_tokens: int, tesseract: Tesseract | None = None) -> str:
    """Return an identifier of the rules by which documents are read and split. `passage_tokens` is
    the target size of a passage. `tesseract` is None if text in pictures is not recognised. If the
    identifier changes, all documents are read again."""
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
    """Fetch an item and split it into passages. Returns None if the item was purged or has
    vanished. If it has vanished, the next listing shows whether it was removed. Raises
    SourceUnavailable.
    """
    item = step.item
    if item is None or item.id in read_excluded_paths(connection, source.id, [item.id]):
        return None
    pinned = read_pins(connection, source.id, [item.id]).get(item.id)
    live = read_live_document(connection, source.id, item.id)
    try:
        fetch = run_in_turns(partial(_fetch, source.connector, item), source.caller, yield_to_edits)
        fetched = run_to_end(fetch)
    except ItemVanished:
        return None
    except ItemUnreadable as problem:
        return Reading(Seen(source.id, item.id, RETRY, None, problem.why, problem.hint))
    content, origin = _hash_content(fetched), _format_origin(fetched)
    seen = Seen(source.id, item.id, fetched.revision, content)
    # The live document of an item without a revision may have been read by older rules.
    by_old_rules = scope.afresh or step.reason != CHANGED
    state = (content, fetched.media_type, origin)
    is_live = live is not None and state == (live.content, live.media_type, live.origin)
    if content == pinned or (is_live and not by_old_rules):
        return Reading(seen)
    try:
        refuse_empty(fetched.data, fetched.media_type)
        blocks = extract(fetched.data, fetched.media_type)
    except DocumentUnreadable as problem:
        return Reading(replace(seen, why=problem.why, hint=problem.hint))
    except ReaderUnavailable as problem:
        return Reading(Seen(source.id, item.id, RETRY, None, problem.why, problem.hint), waits=True)
    seen = replace(seen, skipped=json.dumps(count_skipped(blocks), sort_keys=True))
    titled = with_title(blocks, _choose_title(fetched, item.id, blocks), 1)
    pieces = _cut(titled, passage_tokens, yield_to_edits)
    passages = tuple(Passage(piece.heading, piece.text) for piece in pieces)
    occurrences = tuple(
        Occurrence(passage.id, piece.first_line, piece.last_line, links)
        for passage, piece, links in zip(
            passages, pieces, _list_links(pieces, fetched), strict=True
        )
    )
    names, properties = list_names(blocks, fetched.title), _collect_properties(blocks, fetched)
    if live is not None and is_live:  # The content is unchanged, so the document keeps its date.
        properties = _copy_date(properties, live.properties)
    document = Document(
        source.id, item.id, content, fetched.media_type, occurrences, names, origin, properties
    )
    if not passages and not is_left_out(blocks) and _has_content(fetched.data):
        seen = replace(seen, why=_NO_TEXT, hint=_choose_no_text_hint(blocks))
    return Reading(seen, None if document == live else ReadDocument(document, passages))


def _choose_title(fetched: Fetched, path: str, blocks: Sequence[Block]) -> str:
    if not fetched.title and fetched.media_type in ("text/markdown", "text/csv"):
        return make_title_from_path(path, blocks)  # the title of a note is its file name
    if not fetched.title and fetched.media_type in ("text/plain", "application/json"):
        return find_chat_title(path, blocks)
    return fetched.title or ""


def _choose_no_text_hint(blocks: Sequence[Block]) -> str:
    """Return the hint for a document without text: which parts were omitted, and what to do."""
    skipped = ", ".join(
        f"{kind} ({count})" for kind, count in sorted(count_skipped(blocks).items())
    )
    left_out = f"Left out on purpose: {skipped}. " if skipped else ""
    return f"{left_out}If the file is not a document, add it to `ignore`"


def _has_content(data: bytes) -> bool:
    """Whether the data contains a letter or digit outside tags. Binary data almost always does."""
    return _WORD.search(_MARKUP.sub(b" ", data)) is not None


def _cut(blocks: Sequence[Block], passage_tokens: int, yield_to_edits: YieldToEdits) -> list[Chunk]:
    pieces: list[Chunk] = []
    for piece in yield_passages(blocks, passage_tokens):
        pieces.append(piece)
        yield_to_edits()
    return pieces


def _list_links(pieces: Sequence[Chunk], fetched: Fetched) -> Iterator[tuple[Link, ...]]:
    """Yield the links of each passage, one link for each target. The first passage also gets the
    links that the source supplies."""
    targets = {link.target for piece in pieces for link in piece.links}
    placeless = [link for target in fetched.links if (link := make_name_link(target))]
    for position, piece in enumerate(pieces):
        more = [link for link in placeless if position == 0 and link.target not in targets]
        shown: dict[str, str] = {}
        for link in (*piece.links, *more):
            shown.setdefault(link.target, link.text)
        yield tuple(Link(target, text) for target, text in shown.items())


Properties = tuple[tuple[str, str], ...]


def _collect_properties(blocks: Sequence[Block], fetched: Fetched) -> Properties:
    """Return the document's properties, as pairs of a name and a value.

    If the document has no `modified` date, the date from the source or the file is added.
    """
    facts = {
        (name, join_lines(value))
        for block in blocks
        if block.kind != "skipped"
        for name, value in block.properties
    }
    date = fetched.origin.get("date") or format_iso_date(fetched.modified_ms)
    if date and not any(name == "modified" for name, _ in facts):
        facts.add(("modified", date))
    return tuple(sorted(facts))


def _copy_date(properties: Properties, live: Properties) -> Properties:
    dates = [pair for pair in live if pair[0] == "modified"]
    if not dates:
        return properties
    return tuple(sorted([*(pair for pair in properties if pair[0] != "modified"), *dates]))


def _fetch(connector: Connector, item: Item) -> Fetched:
    try:
        fetched = connector.fetch(item)
    except ConnectorError:
        raise
    except Exception as error:
        # If a connector fails on an item, the other items are still read.
        kind = type(connector).__name__
        log.error("a connector failed", connector=kind, item=item.id, exc_info=error)
        raise ItemUnreadable(
            f"Cannot read {item.id!r}",
            f"the source's connector failed ({type(error).__name__}: {error})",
            f"Report the error in the log to the maintainers of {kind}.",
        ) from error
    return replace(fetched, media_type=detect_content_type(fetched.data, fetched.media_type))


def _format_origin(fetched: Fetched) -> str:
    origin = {key: text[:_MAX_ORIGIN_CHARACTERS] for key, text in fetched.origin.items() if text}
    encoded = json.dumps(origin, ensure_ascii=False, sort_keys=True)
    return encoded.encode("utf-8", "replace").decode()


def _hash_content(fetched: Fetched) -> bytes:
    """Compute a hash of the content, the title and the links."""
    if fetched.title is None and not fetched.links:
        return hash_content(fetched.data)
    text = "\n".join([fetched.title or "", *fetched.links])
    return hash_content(text.encode("utf-8", "backslashreplace") + b"\0" + fetched.data)


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of a version. `gone` are documents to remove, and `unseen` are items whose
    records are to be deleted, both as (source id, path) pairs.

    If `reason` is empty, the batch comes from a sync of the source named `source`.
    """

    reason: str
    read: tuple[ReadDocument, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    seen: tuple[Seen, ...] = ()
    unseen: tuple[tuple[int, str], ...] = ()
    pins: tuple[Pin, ...] = ()
    source: str = ""

    @property
    def description(self) -> str:
        """The reason to record for the version."""
        return self.reason or scan_reason(self.source, len(self.read), len(self.gone))

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(item.path for item in self.seen).union(path for _, path in self.unseen)

    def end_of_part(self, first: int, passages: int) -> int:
        """Return the end (exclusive) of the part of `read` that begins at index `first` and has
        about `passages` passages."""
        end = first
        while end < len(self.read) and passages > 0:
            passages -= len(self.read[end].passages)
            end += 1
        return end

    def take_first(self, documents: int) -> Self:
        """Return a batch with only the first `documents` entries of `read`, and no removals."""
        read = self.read[:documents]
        paths = {(document.document.source, document.document.path) for document in read}
        seen = tuple(item for item in self.seen if (item.source, item.path) in paths)
        return replace(self, read=read, gone=(), seen=seen, unseen=())


@dataclass(frozen=True, slots=True)
class PassageIntervals:
    ended: tuple[PassageId, ...]
    begun: tuple[PassageId, ...]


def find_intervals(connection: Connection, batch: Batch) -> PassageIntervals:
    """Return the passages that the batch ends and begins. A passage stays in force as long as a
    document contains it."""
    touched = {
        *batch.gone,
        *((document.document.source, document.document.path) for document in batch.read),
    }
    passages = {passage.id for document in batch.read for passage in document.passages}
    released = find_live_passages(connection, touched) - passages
    holders = find_live_holders(connection, released)
    ended = [passage for passage in released if holders[passage] <= touched]
    begun = passages - find_in_force(connection, passages)
    return PassageIntervals(tuple(sorted(ended)), tuple(sorted(begun)))


@dataclass(slots=True)
class Progress:
    """The progress of a sync. Other threads may read the fields.

    If `again` is true, most documents are read again, for example after an upgrade.
    `documents_done` counts committed documents. The fields after `documents_total` describe the
    current batch.
    """

    source: str = ""
    again: bool = False
    documents_done: int = 0
    documents_total: int = 0
    batch_documents: int = 0
    passages_done: int = 0
    passages_total: int = 0

    @property
    def share(self) -> float:
        """The share of the sync that is finished, from 0 to 1. The current batch counts in
        proportion to the number of its passages that have questions."""
        batch = self.batch_documents * self.passages_done / max(self.passages_total, 1)
        return min((self.documents_done + batch) / max(self.documents_total, 1), 1.0)

    def count_passages(self, done: int, total: int) -> None:
        self.passages_done, self.passages_total = done, total

    def end_batch(self, documents: int) -> None:
        self.documents_done += documents
        self.batch_documents = self.passages_done = self.passages_total = 0


_FIRST_PASSAGES = 32
_MOST_PASSAGES = 4096  # Nothing else runs during a commit, so a batch is limited to this number.
_SOON_S = 10.0  # Work of up to this time is one batch.
_LONGEST_BATCH_S = 60.0  # A batch is planned to take at most this long.


@dataclass(slots=True)
class Pace:
    """Limits the next batch of a sync to `passages` new passages.

    The first batch is small, so that the first documents are soon searchable. After each batch, the
    limit becomes ten seconds of work or twice the last limit, whichever is more, but at most a
    minute of work and 4,096 passages. Every version has a fixed cost, so fewer versions make an
    import faster.
    """

    passages: int = _FIRST_PASSAGES

    def adjust(self, passages: int, took_s: float) -> None:
        """Set the limit of the next batch, given that a batch of `passages` new passages took
        `took_s` seconds with its commit."""
        wanted, most = 2 * self.passages, _MOST_PASSAGES
        if took_s and passages:
            wanted = max(wanted, int(_SOON_S * passages / took_s))
            most = min(most, int(_LONGEST_BATCH_S * passages / took_s))
        self.passages = max(min(wanted, most), _FIRST_PASSAGES)


_PART_S = 0.5


@dataclass(slots=True)
class PartSize:
    """Limits each part of a batch to `most` passages, so that matching a part takes about half a
    second."""

    most: int

    def adjust(self, took_s: float) -> None:
        """Set the limit of the next part, given that the last part took `took_s` seconds.

        The limit at most doubles.
        """
        self.most = max(1, min(2 * self.most, int(self.most * _PART_S / took_s)))


@dataclass(slots=True, eq=False)
class PendingBatch:
    """The batch that is being collected for the next version of a source: readings, reports and
    removals by path.

    A small sync may interrupt the sync that collects the batch, and read newer content of the same
    paths. These paths are then dropped from the batch. `unsettled` are the paths that the next
    listing must reload. `new` is the number of passages that are not in the database yet, by path.
    `urgent` are paths to read next, because an edit was too large for a small sync.
    """

    source: int
    name: str
    readings: dict[str, Reading] = field(default_factory=dict)
    reports: dict[str, Step] = field(default_factory=dict)
    removals: dict[str, Step] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)
    new: dict[str, int] = field(default_factory=dict)
    urgent: set[str] = field(default_factory=set)
    _reading: str | None = None

    @property
    def documents(self) -> list[ReadDocument]:
        """The new and changed documents in the batch."""
        return [reading.read for reading in self.readings.values() if reading.read]

    @property
    def new_passages(self) -> int:
        return sum(self.new.values())

    def begin(self, path: str) -> None:
        """Record that the item at this path is being read."""
        self._reading = path

    def end(self, reading: Reading, new: int) -> None:
        """Add the reading of the path given to `begin`, unless another sync has read the same path
        since. `new` is the number of new passages."""
        if self._reading is not None:
            self.readings[self._reading] = reading
            self.new[self._reading] = new
        self._reading = None

    def drop(self, is_later: Callable[[str], bool]) -> None:
        """Drop the paths for which `is_later` returns True, and add them to `unsettled`. Another
        sync has read newer content of these paths."""
        for found in (self.readings, self.reports, self.removals):
            late = [path for path in found if is_later(path)]
            self.unsettled.update(late)
            for path in late:
                del found[path]
                self.new.pop(path, None)
        if self._reading is not None and is_later(self._reading):
            self.unsettled.add(self._reading)
            self._reading = None

    def to_batch(self) -> Batch:
        """Return everything collected so far as a batch that can be committed."""
        paths = [path for path, step in self.removals.items() if step.action is Action.REMOVE]
        problems = [
            Seen(self.source, path, RETRY, None, step.problem.why, step.problem.hint)
            for path, step in self.reports.items()
            if step.problem
        ]
        return Batch(
            reason="",
            read=tuple(self.documents),
            gone=tuple((self.source, path) for path in paths),
            seen=(*(reading.seen for reading in self.readings.values()), *problems),
            unseen=tuple((self.source, path) for path in self.removals),
            source=self.name,
        )

    def remove(self, committed: Batch) -> None:
        for path in committed.paths:
            for found in (self.readings, self.reports, self.removals, self.new):
                found.pop(path, None)


@dataclass(slots=True, eq=False)
class SyncRun:
    """The state of a running sync: its source, scope, batch, and results so far.

    `removals` are the planned removals that are not in a batch yet. `moved` contains the paths of
    these removals by content hash, in reverse order. `back` are the fetches of items that were to
    be removed but exist again. `looked_at` are the paths whose state was committed. `vanished` are
    the paths that no longer existed when they were to be read. `encoder_error` says why new
    passages have no vectors. If it is set, only changes that need no vectors are committed.
    """

    source: Source
    scope: Scope
    usage: Usage | None
    progress: Progress
    batch: PendingBatch
    pace: Pace = field(default_factory=Pace)
    removals: dict[str, Step] = field(default_factory=dict)
    moved: dict[bytes, list[str]] = field(default_factory=dict)
    back: list[Step] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    vanished: set[str] = field(default_factory=set)
    changed: int = 0
    removed: int = 0
    postponed: tuple[str, ...] = ()
    encoder_error: EncoderUnavailable | None = None

    @property
    def is_slow(self) -> bool:
        """Whether calls to the source may be slow, so that they run on a separate thread."""
        return not isinstance(self.source.caller, WriterThread)
