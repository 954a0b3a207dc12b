"""Runs scheduled jobs on the writer's thread. A job that returns a future continues on another
thread."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import structlog

from hopsyncd.errors import REPORTABLE
from hopsyncd.ingest.source_scheduler import Chore
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.source_thread import Stopping

log = structlog.get_logger(__name__)

Note = Callable[[str, str | None], None]
Submit = Callable[[Callable[[SourceSync], None]], "Future[None]"]


class ChoreRunner:
    """Runs scheduled jobs. `running` contains the names of jobs that continue on other threads.

    `note(name, error)` records the end of a run. `submit` runs a function on the writer's thread.
    """

    def __init__(self, submit: Submit, note: Note) -> None:
        self._submit = submit
        self._note = note
        self.running: set[str] = set()

    def run(self, chore: Chore, sync: SourceSync) -> None:
        """Run or start a job, and record how the job ended. If the job fails, the error is logged.
        Only unexpected errors are raised."""
        try:
            begun = chore.run(sync)
        except Stopping:
            raise
        except Exception as error:
            self._end(chore.name, error)
            if not isinstance(error, REPORTABLE):
                raise
            return
        if isinstance(begun, Future):
            self.running.add(chore.name)
            begun.add_done_callback(lambda done: self._end_elsewhere(chore.name, done))
        else:
            self._end(chore.name, None)

    def _end_elsewhere(self, name: str, done: "Future[Any]") -> None:
        """Record the end of a job that ran on another thread. The job stays in `running` until
        then, which prevents a second start."""
        noted = self._submit(lambda _: self._end(name, done.exception()))
        noted.add_done_callback(lambda _: self.running.discard(name))

    def _end(self, name: str, error: BaseException | None) -> None:
        if error is None:
            self._note(name, None)
            return
        why = str(error) or type(error).__name__
        self._note(name, why)
        log.error("job failed", job=name, why=why)
