"""The plan: from what was seen and what is listed, what to do about each item, and why. Pure."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from connectors.errors import SourceUnavailable
from connectors.parts import Parts
from connectors.protocol import Item, Problem
from hopsyncd.sync.scan import Listing
from store.records import Seen

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
    below_doubt = Parts([problem.id for problem in listing.problems if problem.subtree])
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
