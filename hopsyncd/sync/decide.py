"""What one sync of a source is to do, and the reading of each step of it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from connectors.errors import SourceUnavailable
from connectors.protocol import Connector
from hopsyncd.sync.aside import Caller, GiveWay, Here
from hopsyncd.sync.plan import AGAIN, Action, Step, plan
from hopsyncd.sync.read import RETRY, Reading, read
from hopsyncd.sync.scan import Listing, scan
from hopsyncd.text.extract import Extract
from store.database import Connection
from store.purge import excluded_paths
from store.reads import live_document, live_documents
from store.sources import ListingState, pins_of, seen_items

_SMALL_ITEMS = 2000  # that a small sync lists
_WHOLE_EVERY_MS = 24 * 3600 * 1000  # whatever cursors say, everything is listed that often


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, ready to be read."""

    id: int
    name: str
    connector: Connector
    caller: Caller = field(default_factory=Here)


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
