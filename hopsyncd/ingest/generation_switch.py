"""Builds the index for new generation settings in the background, then switches to this index in
one version.

The question sets for the new settings are generated in pieces while there is no other work. They
are stored after each piece, so a restart does not generate them again. The passages of each piece
are also added to a separate index and matched in it. A restart repeats this step. No version uses
the separate index until it contains all passages of the head. Until then, edits and queries use the
old settings.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hopsyncd.errors import HopsyncdError
from hopsyncd.ingest.source_thread import YieldToEdits
from hopsyncd.ingest.version_writer import VersionWriter
from store.contract import Connection
from store.exceptions import DiskFailure
from store.records import PassageId, Version
from store.transactions import count_rewrites
from store.versions import read_head

_PIECE = 32  # passages per piece; other syncs get a turn between two pieces.
# Wait this long after a failure, and twice as long after each further failure, up to
# _LONGEST_WAIT_S.
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SwitchProgress:
    """The progress of a switch, as numbers of passages. `left_s` is the estimated time left in
    seconds, or None if there is no estimate yet.

    `problem` says why the last attempt failed, or is None. A failed attempt is retried.
    """

    done: int
    total: int
    left_s: float | None
    problem: str | None


class GenerationSwitch:
    """Switches the head to the generation settings of another writer, and builds that writer's
    index from scratch.

    Except for `progress`, use an object of this class only on the writer's thread.
    """

    def __init__(
        self,
        connection: Connection,
        open_writer: Callable[[], VersionWriter],
        yield_to_edits: YieldToEdits = lambda: None,
        piece: int = _PIECE,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`open_writer` opens the other writer when the first piece is built. A piece has `piece`
        passages. `yield_to_edits` is called at every slow step."""
        self._connection = connection
        self._open_writer = open_writer
        self._writer: VersionWriter | None = None
        self._yield_to_edits = yield_to_edits
        self._piece = piece
        self._clock_s = clock_s
        self._queue: deque[PassageId] = deque()
        # the passages in the queue that have no question set yet
        self._lacking: set[PassageId] = set()
        # The head version and the number of rewrites when the queue was filled.
        self._filled_for: tuple[int, int] | None = None
        self._rewrites = -1  # the number of rewrites when the separate index was begun
        self._total = 0
        self._spent_s, self._made = 0.0, 0
        self._failures, self._problem = 0, ""
        self._progress = SwitchProgress(0, 0, None, None)
        self.due_s = 0.0  # when to build the next piece, on the clock `clock_s`

    @property
    def progress(self) -> SwitchProgress:
        return self._progress

    def begin_again(self) -> None:
        """Drop the unfinished index, for example because some of its passages were purged."""
        self._filled_for = None
        if self._writer:
            self._writer.forget_index()

    def run(self, go_on: Callable[[], bool]) -> Version | None:
        """Build pieces while `go_on` returns True. Returns the version that completes the switch,
        or None if the switch is not complete.

        If a model or the disk fails, the error is logged and shown by `progress`, and the piece is
        retried later. Other database errors are raised. Such an error can occur even after the
        switch was committed.
        """
        while self._clock_s() >= self.due_s and go_on():
            try:
                version = self._process_piece()
            except (HopsyncdError, DiskFailure) as error:
                self._fail(error)
                return None
            if version:
                return version
        return None

    def _process_piece(self) -> Version | None:
        newest = read_head(self._connection)
        if newest is None:
            self.due_s = self._clock_s() + _FIRST_WAIT_S
            return None
        writer = self._writer = self._writer or self._open_writer()
        if not self._queue or self._filled_for != (newest.id, count_rewrites(self._connection)):
            self._find_remaining(writer, newest)
        if not self._queue:
            return writer.commit_separate_index(newest)
        piece = [self._queue.popleft() for _ in range(min(self._piece, len(self._queue)))]
        lacking = self._lacking.intersection(piece)
        began_s = self._clock_s()
        try:
            writer.build_separate_index(piece, self._yield_to_edits)
        except BaseException:
            self._filled_for = None  # so that the remaining passages are found again
            raise
        if lacking:
            self._spent_s += self._clock_s() - began_s
            self._made += len(lacking)
            self._lacking -= lacking
        self._failures, self._problem = 0, ""
        self._note()
        return None

    def _find_remaining(self, writer: VersionWriter, newest: Version) -> None:
        """Find the passages that are not in the separate index yet. After a purge, start a new
        index, so that no purged content is left."""
        rewritten = count_rewrites(self._connection)
        if not writer.has_index or self._rewrites != rewritten:
            writer.begin_separate_index()
            self._rewrites = rewritten
        left, lacking = writer.find_unbuilt(newest)
        # Passages that already have sets come first. They are fast, so the time left is then
        # estimated from the slow passages only.
        self._queue = deque(sorted(left, key=lambda passage: (passage in lacking, passage)))
        self._lacking = lacking
        self._total = newest.passages
        self._filled_for = newest.id, rewritten
        self._note()

    def _note(self) -> None:
        left_s = self._spent_s / self._made * len(self._lacking) if self._made else None
        self._progress = SwitchProgress(
            self._total - len(self._queue),
            self._total,
            left_s,
            self._problem or None,
        )

    def _fail(self, error: Exception) -> None:
        wait_s = min(_FIRST_WAIT_S * 2**self._failures, _LONGEST_WAIT_S)
        self._failures += 1
        self.due_s = self._clock_s() + wait_s
        if self._problem != str(error):
            log.error("the switch to the new models failed and will be retried", why=str(error))
        self._problem = str(error)
        self._note()
