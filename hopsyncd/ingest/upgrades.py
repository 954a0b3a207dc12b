"""Asks the LLM for missing questions, in pieces, while nothing else waits."""

import time
from collections.abc import Callable

import structlog

from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.llm.budget import Usage
from store.records import Version

log = structlog.get_logger(__name__)

_PIECE = 256  # passages to ask about before others get a turn
_EVERY_S = 600.0
_FIRST_WAIT_S = 30.0


class Upgrades:
    """Replaces provisional questions by the LLM's. `due_s` is when next, by the monotonic clock.

    While the endpoint fails, the waits grow from half a minute to ten; once it answers, all that
    waits is asked for at once, within the limits of one sync.
    """

    def __init__(
        self,
        writer: VersionWriter,
        new_usage: Callable[[], Usage],
        on_version: Callable[[Version], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._new_meter = new_usage
        self._on_version = on_version
        self._clock_s = clock_s
        self._usage = new_usage()
        self._failures = 0
        self.due_s = clock_s()

    def after_sync(self, usage: Usage | None) -> None:
        """Note the LLM usage of a sync; None if it was not asked."""
        if usage is None:
            if not self._failures:
                self.due_s = self._clock_s()
        elif usage.completion_tokens:
            self._failures = 0
            self.due_s = self._clock_s()
        elif usage.failures:
            self.due_s = min(self.due_s, self._clock_s() + self._wait_s())

    def run(self, go_on: Callable[[], bool]) -> bool | None:
        """Do one piece if it is due and `go_on` allows it.

        Returns whether the LLM answered; None if it was not asked.
        """
        if self._clock_s() < self.due_s or not go_on():
            return None
        version = self._writer.upgrade(_PIECE, self._usage, go_on)
        if version:
            self._failures = 0
            self._on_version(version)
            log.info("upgraded", version=version.id, reason=version.reason)
            return True
        if not go_on():
            return None
        failed = bool(self._usage.failures)
        self._failures = self._failures + 1 if failed else 0
        self._usage = self._new_meter()
        self.due_s = self._clock_s() + self._wait_s()
        return False if failed else None

    def _wait_s(self) -> float:
        if not self._failures:
            return _EVERY_S
        return float(min(_FIRST_WAIT_S * 2 ** (self._failures - 1), _EVERY_S))
