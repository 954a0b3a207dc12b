"""The plan: from what was seen and what is listed, what to do about each item, and why. Pure."""

from collections.abc import Container, Generator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from connectors.protocol import Connector, Item, Problem, Selection, SourceUnavailable
from hopsyncd.formats.readers import Extract
from hopsyncd.ingest.read import RETRY, Reading, read
from hopsyncd.ingest.scan import Listing, scan
from hopsyncd.ingest.source_thread import CallRunner, GiveWay, WriterThread
from store.records import Seen
from store.sqlite.database import Connection
from store.sqlite.purge import excluded_paths
from store.sqlite.reads import live_document, live_documents
from store.sqlite.sources import ListingState, pins_of, seen_items

CHANGED = "changed"  # the reason for a fetch of an edited document
AGAIN = "read again"  # the reason for a fetch of what could not be used, or is wanted afresh


class Action(StrEnum):
    """What to do about one item; FORGET drops the record of one that never became a document."""

    FETCH = "fetch"
    REMOVE = "remove"
    REPORT = "report"
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class Step:
    """One item's action with its reason; `item` goes with FETCH, `problem` with REPORT."""

    action: Action
    path: str
    reason: str
    item: Item | None = None
    problem: Problem | None = None


def plan(
    listing: Listing,
    seen: Mapping[str, Seen],
    live: Mapping[str, bytes],
    *,
    pins: Mapping[str, bytes | None] = MappingProxyType({}),
    excluded: Container[str] = (),
    accept_empty: bool = False,
) -> tuple[Step, ...]:
    """Decide every step: what to fetch first, what to report, and what to remove last.

    Edited documents are fetched before new ones: many new ones may have come with an edit.
    `live` are the documents at the head, by path. Removals come last so that a renamed document's
    passages never cease to be held. `pins` are documents that a restore set, by path, with what
    their files held: where there was no file, and none was seen since, its absence changes nothing.
    `excluded` are items that were purged: they are passed over, listed or not.
    Raises SourceUnavailable when the removals would leave the source without any document: an
    unmounted disk looks like that, and an account that sees nothing any more.
    """
    fetches = [
        _fetch(item, seen.get(path)) for path, item in listing.items.items() if path not in excluded
    ]
    reports = [
        Step(Action.REPORT, problem.id, problem.why, problem=problem)
        for problem in listing.problems
        if problem.subtree or problem.id not in excluded
    ]
    doubtful = frozenset(problem.id for problem in listing.problems)
    below_doubt = Selection([problem.id for problem in listing.problems if problem.subtree])
    removals = [
        Step(Action.REMOVE if path in live else Action.FORGET, path, "no longer there")
        for path in sorted(live.keys() | seen.keys())
        if path not in listing.items
        and listing.covers(path)
        and path not in doubtful
        and not below_doubt.has(path)
        and not (path in pins and pins[path] is None and path not in seen)
    ]
    left = live.keys() - {step.path for step in removals}
    if live and not left and not listing.items and not accept_empty:
        raise SourceUnavailable(
            "The source is paused",
            f"nothing of its {len(live)} indexed documents is there any more",
            "If that is meant, run `hopsyncd sync --accept-empty`; nothing was removed",
        )
    wanted = sorted((step for step in fetches if step), key=lambda step: step.reason != CHANGED)
    return (*wanted, *reports, *removals)


def _fetch(item: Item, seen: Seen | None) -> Step | None:
    if seen is None:
        return Step(Action.FETCH, item.id, "new", item)
    if not seen.revision:
        return Step(Action.FETCH, item.id, AGAIN, item)
    if seen.revision != item.revision:
        return Step(Action.FETCH, item.id, CHANGED, item)
    return None


_SMALL_ITEMS = 2000  # that a small sync lists
_WHOLE_EVERY_MS = 24 * 3600 * 1000  # whatever cursors say, everything is listed that often


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, ready to be read."""

    id: int
    name: str
    connector: Connector
    caller: CallRunner = field(default_factory=WriterThread)


@dataclass(frozen=True, slots=True)
class Scope:
    """What to sync: parts of the source or all of it (None), and how.

    `accept_empty` allows the last documents to be removed; `afresh` reads every document again;
    `whole` lists everything, also where what changed since the last listing could be asked for.
    `small` is for others to wait for: it asks no LLM yet, and gives up if there is much to do.
    `edits`, where it is small: only so many documents are read, edited ones, those named first.
    """

    under: tuple[str, ...] | None = None
    accept_empty: bool = False
    afresh: bool = False
    whole: bool = False
    small: bool = False
    edits: int = 0


def held(name: str) -> SourceUnavailable:
    """What keeps a source from being synced that was paused by hand."""
    return SourceUnavailable(
        "The source is paused", "it was paused by hand", f"`hopsyncd resume '{name}'` ends that"
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What a sync is to do, and the listing that it follows from.

    `gone` are the documents that it removes, by path, with the content that each has.
    """

    steps: tuple[Step, ...]
    listing: Listing
    gone: Mapping[str, bytes]


def since_of(state: ListingState, scope: Scope, now_ms: int) -> str | None:
    """Where the listing may begin; None: it must be of everything."""
    if scope != Scope() or state.listed_ms is None:
        return None
    is_fresh = 0 <= now_ms - state.listed_ms < _WHOLE_EVERY_MS
    return state.cursor if is_fresh else None


def planned(
    connection: Connection,
    source: Source,
    scope: Scope,
    since: str | None = None,
    give_way: GiveWay = lambda: None,
) -> Generator[None, None, Decision]:
    """Decide what a sync would do, changing nothing, in turns.

    Raises SourceUnavailable, and TooMuch where a small sync would have much to list.
    """
    # As it was before the listing: what a small sync adds meanwhile may be missing in that.
    seen, live = seen_items(connection, source.id), live_documents(connection, source.id)
    most = _SMALL_ITEMS if scope.small else None
    listing = yield from scan(source.connector, scope.under, since, source.caller, give_way, most)
    if scope.afresh:
        seen = {path: replace(item, revision=RETRY) for path, item in seen.items()}
    steps = plan(
        listing,
        seen,
        live,
        pins=pins_of(connection, source.id),
        excluded=excluded_paths(connection, source.id),
        accept_empty=scope.accept_empty,
    )
    gone = {step.path: live[step.path] for step in steps if step.action is Action.REMOVE}
    return Decision(steps, listing, gone)


def read_step(
    connection: Connection,
    source: Source,
    scope: Scope,
    step: Step,
    passage_tokens: int,
    extract: Extract,
    give_way: GiveWay = lambda: None,
) -> Reading | None:
    """Read the item of a step, if it has one and that is still there.

    Compares with the head as it is now: others may have moved it since the plan.
    """
    if step.item is None or step.path in excluded_paths(connection, source.id):
        return None
    # What could not be read last time may be indexed as older rules would have it.
    by_old_rules = scope.afresh or step.reason == AGAIN
    reading = read(
        source.connector,
        source.id,
        step.item,
        pins_of(connection, source.id).get(step.path),
        None if by_old_rules else live_document(connection, source.id, step.path),
        passage_tokens,
        extract,
        source.caller,
        give_way,
    )
    if (
        reading
        and reading.read
        and reading.read.document == live_document(connection, source.id, step.path)
    ):
        return Reading(reading.seen)
    return reading
