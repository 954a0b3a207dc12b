"""Lists a source and plans its sync: which items to add, update or remove, and why."""

from collections import deque
from collections.abc import Collection, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from types import MappingProxyType

import structlog

from connectors.protocol import (
    Connector,
    ConnectorError,
    Cursor,
    CursorExpired,
    Found,
    Gone,
    Item,
    Problem,
    Selection,
    SourceUnavailable,
)
from hopsyncd.ingest.source_thread import CallRunner, Turn, WriterThread, YieldToEdits, run_in_turns
from store.contract import Connection
from store.reads import count_live_documents, read_live_documents
from store.records import Seen
from store.sources import ListingState, read_excluded_paths, read_pins, read_seen_items

log = structlog.get_logger(__name__)

_CHUNK = 256  # items taken from the connector per call
_SHOWN = 100  # characters shown of a name that is too long


class TooMuch(Exception):
    """Raised to abandon a small sync that has too much work."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of listing a source. `under` contains the paths of the listed parts, or is None if
    the whole source was listed.

    If `since` is a cursor, the listing is incremental: it contains only changes since that cursor,
    and only the items in `gone` were removed. `cursor` is the point where the next listing of the
    whole source can begin. It is None for a partial listing or a source without cursors.
    """

    items: dict[str, Item]
    problems: tuple[Problem, ...]
    under: Collection[str] | None
    gone: frozenset[str] = frozenset()
    since: str | None = None
    cursor: str | None = None

    def decides(self, path: str) -> bool:
        """Whether the listing shows that this item exists, or that it does not exist."""
        return path in self.items or self.covers(path)

    def covers(self, path: str) -> bool:
        """Whether the listing would contain this item if it existed."""
        if path in self.gone:
            return True
        if self.since is not None:
            return False
        if self.under is None:
            return True
        names = path.split("/")
        return any("/".join(names[:end]) in self.under for end in range(len(names) + 1))


def scan(
    connector: Connector,
    under: Sequence[str] | None,
    since: str | None = None,
    caller: CallRunner = WriterThread(),  # noqa: B008 - it has no state
    yield_to_edits: YieldToEdits = lambda: None,
    most: int | None = None,
    max_path_bytes: int | None = None,
) -> Generator[Turn, None, Listing]:
    """List the source from the cursor `since`, or completely if there is no cursor or the cursor
    has expired. If `under` is given, only these parts are listed. An item with a longer path than
    `max_path_bytes` becomes a problem.

    Raises SourceUnavailable if the listing fails, and TooMuch if the listing has more than `most`
    items.
    """
    limits = most, max_path_bytes
    try:
        return (yield from _scan(connector, under, since, caller, yield_to_edits, limits))
    except CursorExpired as expired:
        log.info("the cursor has expired; listing everything", why=expired.why)
    try:
        return (yield from _scan(connector, under, None, caller, yield_to_edits, limits))
    except CursorExpired as error:
        raise SourceUnavailable(error.what, error.why, error.hint) from error


def _scan(
    connector: Connector,
    under: Sequence[str] | None,
    since: str | None,
    caller: CallRunner,
    yield_to_edits: YieldToEdits,
    limits: tuple[int | None, int | None],
) -> Generator[Turn, None, Listing]:
    most, max_path_bytes = limits
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    gone: set[str] = set()
    cursor = None
    listed = _discover(connector, since, under)
    while chunk := (
        yield from run_in_turns(lambda: [*islice(listed, _CHUNK)], caller, yield_to_edits)
    ):
        for item in chunk:
            yield_to_edits()
            if isinstance(item, Cursor):
                cursor = item.value if under is None else None
            elif isinstance(item, Gone):
                items.pop(item.id, None)
                gone.add(item.id)
            elif fault := _find_fault(item.id, max_path_bytes):
                if isinstance(item, Problem):  # The rest of the folder `fault.id` can be read.
                    fault = replace(item, id=fault.id, subtree=False)
                problems.append(fault)
            elif isinstance(item, Problem):
                problems.append(item)
            else:
                items[item.id] = item
                gone.discard(item.id)
                if most is not None and len(items) > most:
                    raise TooMuch
    parts = None if under is None else frozenset(under)
    return Listing(items, tuple(problems), parts, frozenset(gone), since, cursor)


def _discover(
    connector: Connector, since: str | None, under: Sequence[str] | None
) -> Iterator[Found]:
    try:
        yield from connector.discover(since, under)
    except ConnectorError:
        raise
    except Exception as error:
        # An error in a connector must pause only its own source, not end the writer's thread.
        kind = type(connector).__name__
        log.error("a connector failed", connector=kind, doing="list the source", exc_info=error)
        raise SourceUnavailable(
            "Cannot list the source",
            f"the source's connector failed ({type(error).__name__}: {error})",
            f"Report the error in the log to the maintainers of {kind}. The source stays indexed.",
        ) from error


def _find_fault(id_: str, max_path_bytes: int | None) -> Problem | None:
    """Return why an item with this id cannot be stored, or None if it can. The problem has an id
    that can be stored. For a path that is too long, this is a folder above the item."""
    size = len(id_.encode("utf-8", "backslashreplace"))
    if max_path_bytes is not None and size > max_path_bytes:
        # Access rules must apply to the problem too, so the folders are complete.
        begin = _make_printable(id_).encode()[:max_path_bytes].decode(errors="ignore")
        return Problem(
            begin.rpartition("/")[0] or f"{begin[:_SHOWN]}…",
            f"a path in this folder has {size:,} bytes, but the database server can store at"
            f" most {max_path_bytes:,}",
            "Shorten the names of the folders in the path.",
        )
    if _make_printable(id_) == id_:
        return None
    why = "contains a NUL character" if "\0" in id_ else "is not valid Unicode"
    return Problem(_make_printable(id_), f"the name {why}", "Rename the item in its source.")


def _make_printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


# The reasons to fetch an item: it is new or edited, was read by other rules, or could not be used.
NEW, CHANGED, AGAIN, FAILED = "new", "changed", "read again", "failed before"
RETRY = ""  # recorded as an item's revision, so that the next scan fetches the item again.

_SMALL_ITEMS = 2000  # the most items that a small sync lists.
_SMALL_STEPS = 100
_SMALL_BYTES = 1 << 20  # the largest document that a small sync reads (1 MiB).
_LONG_BYTES = 1 << 16  # Documents larger than this (64 KiB) are read after the others.
# Once a day a source is listed completely, even if it has cursors.
_WHOLE_EVERY_MS = 24 * 3600 * 1000


class Action(StrEnum):
    """The kinds of actions for an item. FORGET deletes the record of an item that is not
    indexed."""

    FETCH = "fetch"
    REMOVE = "remove"
    REPORT = "report"
    FORGET = "forget"


REMOVALS = (Action.REMOVE, Action.FORGET)


@dataclass(frozen=True, slots=True)
class Step:
    """The action for an item, and the reason. FETCH has an `item`, REPORT has a `problem`."""

    action: Action
    path: str
    reason: str
    item: Item | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, ready to be read."""

    id: int
    name: str
    connector: Connector
    caller: CallRunner = field(default_factory=WriterThread)


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts of a source to sync, and the options of the sync.

    `under` contains the paths of the parts. None means the whole source. If `accept_empty` is true,
    all documents may be removed. If `afresh` is true, every item is fetched. If `whole` is
    true, everything is listed, even if the source can list only its changes. A `small` sync must be
    fast: it does not ask the LLM, and is abandoned if it has too much work. `edits` limits a small
    sync to this number of edited documents, in the order of `under`. 0 means no limit.
    """

    under: tuple[str, ...] | None = None
    accept_empty: bool = False
    afresh: bool = False
    whole: bool = False
    small: bool = False
    edits: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a sync, and the listing on which they are based.

    `gone` contains the content hash of each document to remove, by path. If the number of edits is
    limited, the sync reads only the paths in `only`, and leaves the paths in `postponed` to the
    next sync. Otherwise `only` is None.
    """

    steps: tuple[Step, ...]
    listing: Listing
    gone: Mapping[str, bytes]
    only: Collection[str] | None = None
    postponed: tuple[str, ...] = ()

    def looks_at(self, path: str) -> bool:
        """Whether this sync will bring the item at the path up to date."""
        return self.listing.decides(path) if self.only is None else path in self.only

    def select_steps(self, *actions: Action) -> dict[str, Step]:
        """Return the steps with these actions, by path."""
        return {step.path: step for step in self.steps if step.action in actions}

    def group_gone_by_content(self) -> dict[bytes, list[str]]:
        """Group the paths in `gone` by their content hash, each group in descending order."""
        paths: dict[bytes, list[str]] = {}
        for path in sorted(self.gone, reverse=True):
            paths.setdefault(self.gone[path], []).append(path)
        return paths


def put_first(waiting: deque[Step], urgent: set[str]) -> int:
    """Move the steps of the urgent paths to the front, and clear `urgent`. Returns the number of
    these steps."""
    first = [step for step in waiting if step.path in urgent]
    rest = [step for step in waiting if step.path not in urgent]
    waiting.clear()
    waiting.extend([*first, *rest])
    urgent.clear()
    return len(first)


def source_paused_error(name: str) -> SourceUnavailable:
    return SourceUnavailable(
        f'Cannot sync the source "{name}"',
        "a user paused the source",
        f"Run `hopsyncd resume '{name}'`",
    )


def find_cursor(state: ListingState, scope: Scope, now_ms: int) -> str | None:
    """Return the cursor at which the listing begins, or None if everything must be listed."""
    if scope != Scope() or state.listed_ms is None:
        return None
    is_fresh = 0 <= now_ms - state.listed_ms < _WHOLE_EVERY_MS
    return state.cursor if is_fresh else None


def make_plan(
    connection: Connection,
    source: Source,
    scope: Scope,
    since: str | None = None,
    yield_to_edits: YieldToEdits = lambda: None,
    seen: Mapping[str, Seen] | None = None,
) -> Generator[Turn, None, Plan]:
    """List the source and plan its sync, in turns. Writes nothing to the database. `since` is the
    cursor at which to begin, as returned by `find_cursor`. `seen` contains the items of the last
    scan by path, by default those in the database.

    Raises SourceUnavailable, and TooMuch if a small sync has too much work.
    """
    # Read these before listing. A small sync may add items meanwhile, which the listing can lack;
    # they must not be removed.
    if seen is None:
        seen = read_seen_items(connection, source.id, scope.under)
    live = read_live_documents(connection, source.id, scope.under)
    most = _SMALL_ITEMS if scope.small else None
    listing = yield from scan(
        source.connector,
        scope.under,
        since,
        source.caller,
        yield_to_edits,
        most,
        connection.dialect.max_path_bytes,
    )
    documents = len(live)
    if scope.under is not None and not listing.items:
        documents = count_live_documents(connection, source.id)
    parts = _list_parts(scope, listing)
    more = read_seen_items(connection, source.id, parts) if parts != scope.under else {}
    steps = decide(
        listing,
        {**seen, **more},
        live,
        pins=read_pins(connection, source.id, scope.under),
        excluded=read_excluded_paths(connection, source.id, parts),
        accept_empty=scope.accept_empty,
        documents=documents,
        afresh=scope.afresh,
    )
    gone = {step.path: live[step.path] for step in steps if step.action is Action.REMOVE}
    plan = Plan(steps, listing, gone)
    if scope.edits:
        plan = _limit_edits(plan, scope)
    if scope.small and not _is_small(plan.steps):
        raise TooMuch
    return plan


def _list_parts(scope: Scope, listing: Listing) -> tuple[str, ...] | None:
    """Return the parts that the listing covers, or None for the whole source.

    If the connector cannot restrict a listing, the result also contains the listed items outside
    the requested parts.
    """
    if scope.under is None:
        return None
    selection = Selection(scope.under)
    return (*scope.under, *(path for path in listing.items if not selection.has(path)))


def decide(
    listing: Listing,
    seen: Mapping[str, Seen],
    live: Mapping[str, bytes],
    *,
    pins: Mapping[str, bytes | None] = MappingProxyType({}),
    excluded: Container[str] = (),
    accept_empty: bool = False,
    documents: int | None = None,
    afresh: bool = False,
) -> tuple[Step, ...]:
    """Plan all steps: first the fetches, then the reports, then the removals.

    Edited documents are fetched before new documents, because an edit may arrive together with many
    new documents. Both are fetched before the documents to be read again. Short documents are
    fetched before long documents, so that much of an import is soon searchable. Removals come last,
    so that the passages of a renamed document stay in force throughout.

    `seen` contains the items of the last scan by path. `live` contains the content hashes of the
    documents at the head that the listing may contain, by path. `documents` is the number of all
    documents of the source, by default the number of `live`. `pins` contains the content hash of
    each restored document's file at the time of the restore, by path, or None if there was no file.
    Such a document is kept while its file stays missing. `excluded` contains the paths of purged
    items, which are always skipped. If `afresh` is true, unchanged items are fetched too.

    Raises SourceUnavailable if the source would lose all its documents, for example because a disk
    was unmounted or an account lost its permissions.
    """
    fetches = [
        _fetch(item, seen.get(path), afresh)
        for path, item in listing.items.items()
        if path not in excluded
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
    if not listing.items and not accept_empty:
        _refuse_to_empty(removals, len(live) if documents is None else documents)
    return (*sorted((step for step in fetches if step), key=_sort_key), *reports, *removals)


def _sort_key(step: Step) -> tuple[int, bool]:
    """Return the sort key of a step. Edited documents come first, then new documents, then those to
    be read again. Short documents come before long documents."""
    rank = {CHANGED: 0, NEW: 1}.get(step.reason, 2)
    return rank, step.item is not None and step.item.size_bytes > _LONG_BYTES


def _fetch(item: Item, seen: Seen | None, afresh: bool) -> Step | None:
    if seen is None:
        return Step(Action.FETCH, item.id, NEW, item)
    if not seen.revision:
        return Step(Action.FETCH, item.id, FAILED if seen.why else AGAIN, item)
    if seen.revision != item.revision:
        return Step(Action.FETCH, item.id, CHANGED, item)
    return Step(Action.FETCH, item.id, AGAIN, item) if afresh else None


def _refuse_to_empty(removals: Iterable[Step], documents: int) -> None:
    if 0 < documents <= sum(step.action is Action.REMOVE for step in removals):
        raise SourceUnavailable(
            "The source is paused",
            f"all indexed documents of the source ({documents}) have disappeared",
            "The index keeps the documents. If they were deleted on purpose, run `hopsyncd sync"
            " --accept-empty`",
        )


def _limit_edits(plan: Plan, scope: Scope) -> Plan:
    """Return a plan with only the first `scope.edits` edits of small documents, in the order of
    `scope.under`."""
    reasons = CHANGED, AGAIN, FAILED
    edits = {step.path: step for step in plan.steps if step.reason in reasons and _is_small([step])}
    edited = [path for path in scope.under or () if path in edits]
    only, postponed = edited[: scope.edits], tuple(edited[scope.edits :])
    return Plan(tuple(edits[path] for path in only), plan.listing, {}, frozenset(only), postponed)


def _is_small(steps: Collection[Step]) -> bool:
    sizes = [step.item.size_bytes for step in steps if step.item]
    return len(steps) <= _SMALL_STEPS and max(sizes, default=0) <= _SMALL_BYTES
