"""Computes views of versions without the sources that a caller may not see.

A view is the graph without the hidden sources. Views of a new head are computed in advance, for the
sets of hidden sources that recent queries used or that the configuration names.

If there is a view of an older version, the new view is cheap to compute, and it is computed for
each new head. Otherwise a view is computed only for a head that was not replaced for a while,
because versions follow each other quickly during an import. After an edit or a batch of an import,
the view that was used last is computed before the new head is served. There are two exceptions, so
no edit waits for a large view. If an edit waits for the writer, the computation of a large change
is abandoned. If an edit follows a large change whose view is not ready, the edit is served first.
In both cases, a thread computes the view later. If a query needs a view that is not ready, it
computes the view, or waits if another thread is computing it.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import structlog

from hopsyncd.index.acl_view import build_acl_view
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.throttle import (
    Preempted,
    ProcessEnds,
    is_ending,
    waiting_for_work,
    yielding_to_queries,
)
from hopsyncd.retrieve.saved_views import SavedViews
from store.heap import release_heap
from store.records import Version
from store.visibility import Mask

log = structlog.get_logger(__name__)

_MASKS = 4  # Sets of hidden sources whose views are kept.
_VIEWS = 2  # Versions kept for each set: each has an array over all questions.
_PAUSE_S = 0.05  # Delay of a view, so that the first questions are not slowed.
_REST = 20  # Rest for 20 times the last computation, to use a twentieth of a core.
_REST_OF_CHANGES = 1  # Like _REST, if a view of an older version is cached.
_QUICK_PASSAGES = 4096  # A head with fewer needs no older view.
_LONGEST_REST_S = 90.0  # Longer than a batch of an import takes.
_LOOK_S = 0.1  # Interval of checks whether a sync has ended or the process ends.
_PAUSES = 9.0  # While queries run, a computation pauses at most 9 times as long as it works.
_REST_OF_EDITS = 4  # Like _REST, for views computed before their head is served.
# A head with more changed passages is served before its view is computed. A batch of an import adds
# at most 4,096 passages, and may replace as many.
_MOST_CHANGED = 8192
# A view of a head with more changed passages pauses while queries run, and yields to edits.
_SMALL_CHANGE = 64
_PAUSES_AT_ONCE = 1.0  # Like _PAUSES, for views computed before their head is served.


@dataclass(frozen=True, slots=True)
class WriterState:
    """The state of the writer: `is_syncing` returns whether a sync is running, and `is_awaited`
    whether an edit waits for the writer or the writer must stop."""

    is_syncing: Callable[[], bool] = lambda: False
    is_awaited: Callable[[], bool] = lambda: False


@dataclass(eq=False, repr=False)
class AclViewCache:
    """Caches and computes the ACL views of one engine. Thread-safe."""

    _budget_factor: float
    _writer: WriterState = WriterState()
    _saved: SavedViews | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    # Masks by their last use, and the views of each mask in the order of their computation.
    _kept: dict[Mask, list[Snapshot]] = field(default_factory=dict)
    _making: set[Mask] = field(default_factory=set)
    _head: Snapshot | None = None
    _is_ahead: bool = False  # whether a thread computes views in advance
    _since_s: float = 0.0  # times of the last head or view, and of the last view
    _made_s: float = 0.0
    _took_s: float = 0.0

    def get(self, head: Snapshot, version: Version, hidden: Mask) -> Snapshot:
        """Return the view of a version without the hidden sources. If there is no such view yet,
        compute it.

        The version must be in the head's index. A passage that also occurs in a visible source
        stays in the view.
        """
        with self._changed:
            self._note_use(hidden)
            while (view := self._find_known(head.index, version.id, hidden)) is None:
                if hidden not in self._making:
                    self._making.add(hidden)
                    break
                with waiting_for_work():
                    self._changed.wait()
        if view:
            return view
        return self._compute(head, version, hidden)

    def is_ready(self, version: int, hidden: Mask) -> bool:
        """Return False if the version is the head and its view is not computed yet, else True.

        If the view of the head is missing, it is computed in advance, after a rest.
        """
        with self._changed:
            self._note_use(hidden)
            head = self._head
            if head is None or head.version.id != version:
                return True
            self._go_on()
            return self._find_known(head.index, version, hidden) is not None

    def expect(self, masks: Iterable[Mask]) -> None:
        """Compute views for these masks in advance, although no query has used them recently."""
        with self._changed:
            expected: dict[Mask, list[Snapshot]] = {
                mask: [] for mask in masks if mask not in self._kept
            }
            self._kept = {**expected, **self._kept}
            self._drop_old_masks()
            self._go_on()

    def follow(self, head: Snapshot) -> None:
        """Compute views of this head from now on. Call this method before the head is served."""
        with self._changed:
            previous = 0
            if self._head is None or self._head.index is not head.index:
                self._kept = {mask: [] for mask in self._kept}
            else:
                previous = self._head.version.id
            self._head, self._since_s = head, time.monotonic()
            mask, is_large = self._select_mask_at_once(head, previous)
            if mask:
                self._making.add(mask)
            self._go_on()
        if mask:
            factor = _PAUSES_AT_ONCE if is_large else 0.0
            try:
                with yielding_to_queries(factor, self._writer.is_awaited):
                    self._make(head, mask)
            except Preempted:
                with self._changed:
                    self._go_on()

    def forget_pasts(self) -> None:
        """Drop the views of all versions except the head."""
        with self._changed:
            newest = self._head.version.id if self._head else 0
            for views in self._kept.values():
                views[:] = [view for view in views if view.version.id == newest]

    def _note_use(self, hidden: Mask) -> None:
        self._kept[hidden] = self._kept.pop(hidden, [])
        self._drop_old_masks()

    def _drop_old_masks(self) -> None:
        for mask in [*self._kept][:-_MASKS]:
            del self._kept[mask]

    def _find_known(self, index: LiveIndex, number: int, hidden: Mask) -> Snapshot | None:
        of_mask = self._kept.get(hidden, ())
        matching = (view for view in of_mask if view.version.id == number and view.index is index)
        return next(matching, None)

    def _find_older(self, head: Snapshot, number: int, hidden: Mask) -> Snapshot | None:
        """Return the newest cached view of an older version in the head's index."""
        views = self._kept.get(hidden, ())
        older = (view for view in views if view.index is head.index and view.version.id < number)
        return max(older, key=lambda view: view.version.id, default=None)

    def _select_mask_at_once(self, head: Snapshot, previous: int) -> tuple[Mask | None, bool]:
        """Return the mask that was used last if its view should be computed before the head is
        served, or else None. Also returns whether more than `_SMALL_CHANGE` passages were added or
        removed.

        The view should be computed if an older view makes it cheap, if the last view was not
        computed too recently, and if no edit would wait for a large change. `previous` is the
        version of the head before, or 0.
        """
        mask = next(reversed(self._kept), None)
        before = mask and self._find_older(head, head.version.id, mask)
        if not mask or not before or mask in self._making or self._is_resting():
            return None, False
        changed = _count_changed(head, before.version.id)
        is_large = changed > _SMALL_CHANGE
        # A small head after a large one is an edit. The thread computes the view that it lacks.
        is_edit = is_large and _count_changed(head, previous) <= _SMALL_CHANGE
        if changed > _MOST_CHANGED or is_edit or (is_large and self._writer.is_awaited()):
            return None, is_large
        return mask, is_large

    def _compute(self, head: Snapshot, version: Version, hidden: Mask) -> Snapshot:
        """Compute and cache a view. The caller must have added `hidden` to `_making`."""
        try:
            with self._changed:
                before = self._find_older(head, version.id, hidden)
            began_s = time.monotonic()
            view = self._build(head, version, hidden, before)
            with self._changed:
                self._since_s = self._made_s = time.monotonic()
                self._took_s = self._made_s - began_s
                views = self._kept.get(hidden)  # None if the mask was dropped meanwhile
                if views is not None and (self._head is None or self._head.index is head.index):
                    self._keep(view, views)
            return view
        finally:
            with self._changed:
                self._making.discard(hidden)
                self._changed.notify_all()

    def _build(
        self, head: Snapshot, version: Version, hidden: Mask, before: Snapshot | None
    ) -> Snapshot:
        """Compute the view from an older view in memory or on disk, or else from the whole
        graph.
        """
        if before is None and self._saved:
            before = self._saved.load(head, version.id, hidden)
            if before and before.version.id == version.id:
                return before
        view = build_acl_view(version, hidden, self._budget_factor, before or head)
        if before is None and self._saved:
            threading.Thread(target=self._saved.save, args=(view,), name="save view").start()
        return view

    def save(self) -> None:
        """Save the newest view of each mask for the next start of the daemon."""
        if self._saved is None:
            return
        with self._changed:
            views_by_mask = [[*views] for views in self._kept.values() if views]
        for views in views_by_mask:
            self._saved.save(max(views, key=lambda view: view.version.id))

    def _keep(self, made: Snapshot, views: list[Snapshot]) -> None:
        views.append(made)
        newest = max(views, key=lambda view: view.version.id)
        if len(views) > _VIEWS:
            views.remove(next(view for view in views if view is not newest))

    def _go_on(self) -> None:
        """Start a thread if a view is missing. The caller holds the lock."""
        if not self._is_ahead and self._find_missing():
            self._is_ahead = True
            threading.Thread(target=self._make_in_advance, name="views").start()

    def _find_missing(self) -> tuple[Snapshot, Mask] | None:
        """Return the head and the most recently used mask whose view is missing, or None."""
        head = self._head
        if head is None:
            return None
        for mask in reversed(self._kept):
            known = self._find_known(head.index, head.version.id, mask)
            if known is None and mask not in self._making:
                return head, mask
        return None

    def _make_in_advance(self) -> None:
        while True:
            with self._changed:
                while (
                    (due := self._find_missing())
                    and (rest_s := self._compute_rest_s(*due)) > 0
                    and not is_ending()
                ):
                    self._changed.wait(min(rest_s, _LOOK_S))
                if due is None or is_ending():
                    self._is_ahead = False
                    return
                head, mask = due
                self._making.add(mask)
            with yielding_to_queries(_PAUSES):
                is_made = self._make(head, mask)
            if not is_made:
                with self._changed:
                    self._is_ahead = False
                return
            release_heap()

    def _make(self, head: Snapshot, mask: Mask) -> bool:
        """Compute a view in advance. Returns False if the process is ending or an error was logged.

        Raises Preempted if an edit waits or the writer must stop.
        """
        try:
            self._compute(head, head.version, mask)
        except Preempted:
            raise
        except ProcessEnds:
            return False
        except Exception:
            log.exception("an ACL view could not be computed in advance", version=head.version.id)
            return False
        return True

    def _is_resting(self) -> bool:
        """Return whether a view was computed so recently that a new head must be served without
        waiting for its next view.
        """
        return time.monotonic() < self._made_s + _REST_OF_EDITS * self._took_s

    def _compute_rest_s(self, head: Snapshot, mask: Mask) -> float:
        """Return how many seconds to wait before computing a view of the head in advance."""
        now_s = time.monotonic()
        is_quick = head.version.passages < _QUICK_PASSAGES
        if is_quick or self._find_older(head, head.version.id, mask):
            rested_s = now_s - self._made_s
            return max(
                _PAUSE_S - (now_s - self._since_s), _REST_OF_CHANGES * self._took_s - rested_s
            )
        been_s = now_s - self._since_s
        if self._writer.is_syncing():
            return _LONGEST_REST_S - been_s
        return min(max(_PAUSE_S, _REST * self._took_s), _LONGEST_REST_S) - been_s


def _count_changed(head: Snapshot, before: int) -> int:
    """Return how many passages were added or removed after the version `before`."""
    intervals, last = head.index.passage_intervals, head.version.id
    added, removed = (
        (before < versions) & (versions <= last) for versions in (intervals.born, intervals.died)
    )
    return int(np.count_nonzero(added) + np.count_nonzero(removed))
