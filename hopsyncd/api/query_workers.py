"""Processes that answer queries for the daemon, because a Python process can use only one core.

Each worker has its own live index, which it updates from the database, and answers whole queries.
The daemon sends a worker only queries at a version that the worker has. If no worker can answer, or
a worker dies during a query, the daemon answers itself. Workers start when two queries overlap, and
catch up when a query needs a newer version.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, TypeVar

import structlog

import hopsyncd
from hopsyncd.api.query_process import (
    AskMessage,
    QueryMessage,
    UpdateMessage,
    Wanted,
    WorkerSettings,
)
from hopsyncd.child_process import IdleTimer, Process, Restarts, end_child, start_child
from hopsyncd.config.configuration import INDEX_NAME, Config
from hopsyncd.config.values import Search
from hopsyncd.ingest.saved_index import SavedIndex

log = structlog.get_logger(__name__)

_SERVE = "import sys; from hopsyncd.api.query_process import serve; serve(int(sys.argv[1]))"
_ROOT = Path(hopsyncd.__file__).resolve().parents[1]
_FAILED_STARTS = 3  # after this many failed starts in a row, no worker is started
_STOP_S = 2.0
_IDLE_S = 120.0  # the workers end after this time without a query for them
_START_S = 300.0  # a worker may have to build its index from the database

Given = Callable[[Wanted], Any]
"""Answers a worker's request to this process's models. Returns None if the models fail."""

_Answer = TypeVar("_Answer")

# Strategies that need no model except the encoder.
_STRATEGIES = ("hop", "bm25", "dense", "hybrid", "decompose")


@dataclass(slots=True, eq=False)
class _Worker:
    process: Process
    pipe: Pipe
    version: int
    busy: bool = False

    def exchange(self, message: object, patience_s: float) -> Any:
        """Send a message and receive the reply. Raises OSError or EOFError without a reply
        in `patience_s` seconds."""
        return _exchange(self.pipe, message, patience_s)

    def ask(self, message: QueryMessage | AskMessage, compute: Given, patience_s: float) -> Any:
        """Send a query to the worker. Returns None if the worker cannot answer.

        compute: returns the model results that the worker requests.
        patience_s: the most seconds to wait for each reply.

        Raises OSError or EOFError if the worker does not reply.
        """
        reply = self.exchange(message, patience_s)
        while isinstance(reply, Wanted):
            reply = self.exchange(compute(reply), patience_s)
        return reply

    def end(self) -> None:
        end_child(self.process)
        self.pipe.close()


def choose_worker_version(
    search: Search, at: str, newest: int, *, reranks: bool = False
) -> int | None:
    """Return the version at which a worker can answer this query, or None if no worker can.

    `at` is the version that the query names, and `newest` the newest version. `reranks` says
    whether `hop` ends with the reranker, which workers do not have.
    """
    plain = search.strategy in _STRATEGIES and not search.wants_llm
    if search.strategy == "hop" and (reranks or search.rerank == "cross-encoder"):
        return None
    number = newest if at == "head" else int(at) if at.isdecimal() else 0
    return number if plain and 0 < number <= newest else None


def make_query_workers(config: Config, saved: SavedIndex) -> "QueryWorkers":
    """Create the query workers of a daemon. Starts no workers if the database is on a server."""
    is_file = isinstance(config.database, Path)
    # Absolute, because a worker has another working directory.
    place = config.database.absolute() if isinstance(config.database, Path) else config.database
    settings = WorkerSettings(
        place, config.daemon.data_dir.absolute() / INDEX_NAME, config.index.edge_budget_factor
    )
    count = config.limits.worker_count if is_file else 0
    return QueryWorkers(settings, count, config.limits.query_s, find_checked=lambda: saved.checked)


class QueryWorkers:
    """Starts up to `count` worker processes, and hands queries to them. Thread-safe.

    find_checked: returns the present value of `WorkerSettings.checked`.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        count: int,
        patience_s: float,
        idle_s: float = _IDLE_S,
        find_checked: Callable[[], str] = lambda: "",
    ) -> None:
        self._settings = settings
        self._find_checked = find_checked
        self._count = count
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._workers: list[_Worker] = []
        self._answering_here = 0  # the number of queries that this process is answering
        self._needed_version = 0  # the newest version that a query needed and no worker had
        self._idle = IdleTimer(idle_s, self._end_if_idle)
        self._restarts = Restarts(_FAILED_STARTS, (OSError, EOFError))
        self._updater: threading.Thread | None = None

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are ready or busy."""
        with self._changed:
            return [worker.process.pid for worker in self._workers]

    def answer(
        self,
        number: int,
        message: QueryMessage | AskMessage,
        compute: Given,
        answer_here: Callable[[], _Answer],
    ) -> _Answer:
        """Let a worker that has version `number` answer the query.

        compute: returns the model results that the worker requests. answer_here: answers in this
        process if no worker can answer.
        """
        worker = self._take_worker(number)
        if worker is not None:
            reply: _Answer | None = self._ask(worker, message, compute)
            if reply is not None:
                return reply
            with self._changed:
                self._answering_here += 1
        try:
            return answer_here()
        finally:
            with self._changed:
                self._answering_here -= 1
                self._changed.notify_all()

    def require_update(self, number: int) -> None:
        """Make the workers check for a purge or a rebuild before they answer again."""
        with self._changed:
            for worker in self._workers:
                worker.version, self._needed_version = 0, max(self._needed_version, number)
            self._changed.notify_all()

    def close(self) -> None:
        self._idle.cancel()
        with self._changed:
            self._count = 0
            self._changed.notify_all()
            workers, self._workers = self._workers, []
        for worker in workers:  # a thread that waits for a reply gets an error
            end_child(worker.process)
        if self._updater:
            self._updater.join(_STOP_S)  # a worker that is starting ends when its pipe closes

    def _take_worker(self, number: int) -> _Worker | None:
        """Reserve a worker that has version `number`. Returns None if this process must answer."""
        with self._changed:
            while True:
                current = [worker for worker in self._workers if worker.version >= number]
                for idle in current:
                    if not idle.busy:
                        idle.busy = True
                        self._idle.restart()
                        return idle
                if len(current) < self._count and (self._answering_here or self._workers):
                    self._update_in_background(number)
                if not current or (not self._answering_here and len(current) < self._count):
                    self._answering_here += 1
                    return None
                self._changed.wait()

    def _ask(self, worker: _Worker, message: QueryMessage | AskMessage, compute: Given) -> Any:
        """Return the worker's answer, or None if the worker was lost."""
        try:
            reply = worker.ask(message, compute, self._patience_s)
        except (OSError, EOFError) as error:
            self._discard(worker, error)
            return None
        except BaseException as error:  # its late reply would be taken for the next
            self._discard(worker, error)
            raise
        self._release(worker)
        return reply

    def _release(self, worker: _Worker) -> None:
        with self._changed:
            worker.busy = False
            self._idle.restart()
            self._changed.notify_all()

    def _end_if_idle(self) -> None:
        """End all workers if they have had no query for 120 s. Overlapping queries restart them."""
        with self._changed:
            if (
                not self._idle.has_expired
                or self._answering_here
                or any(w.busy for w in self._workers)
            ):
                self._idle.restart()
                return
            workers, self._workers = self._workers, []
            self._needed_version = 0
        for worker in workers:
            worker.end()

    def _discard(self, worker: _Worker, error: BaseException) -> None:
        """End a worker that does not reply. A new worker starts when it is needed."""
        with self._changed:
            if worker not in self._workers:  # the workers were closed meanwhile
                return
            self._workers.remove(worker)
            self._changed.notify_all()
        worker.end()
        log.warning("a query worker ended", pid=worker.process.pid, why=_describe_error(error))

    def _update_in_background(self, number: int) -> None:
        """Start to update the workers to version `number` in the background.

        The caller must hold the lock.
        """
        self._needed_version = max(self._needed_version, number)
        if self._updater is None:
            self._updater = threading.Thread(
                target=self._update_workers, name="workers", daemon=True
            )
            self._updater.start()
        self._changed.notify_all()

    def _update_workers(self) -> None:
        """Update the workers one at a time, so that the others can answer queries."""
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if not self._count:
                    return
                behind = self._find_outdated()
                if behind:
                    behind.busy = True
                needed = UpdateMessage(self._needed_version, self._find_checked())
            if behind is None:
                self._start()
                continue
            try:
                behind.version = behind.exchange(needed, _START_S)
            except (OSError, EOFError) as error:
                self._discard(behind, error)
            else:
                self._release(behind)

    def _has_work(self) -> bool:
        is_short = len(self._workers) < self._count and self._needed_version > 0
        return is_short or not self._count or self._find_outdated() is not None

    def _find_outdated(self) -> _Worker | None:
        """Return a free worker with an older version than the wanted version, or None."""
        outdated = (
            worker
            for worker in self._workers
            if worker.version < self._needed_version and not worker.busy
        )
        return next(outdated, None)

    def _start(self) -> None:
        """Start another worker. After three failed starts in a row, only this process answers."""
        try:
            with self._restarts.attempt():
                worker = _start_worker(replace(self._settings, checked=self._find_checked()))
        except (OSError, EOFError) as error:
            log.warning("a query worker cannot be started", why=_describe_error(error))
            if self._restarts.are_given_up:
                log.error(
                    "only the daemon's process answers queries, because no query worker starts",
                    why=_describe_error(error),
                )
                with self._changed:
                    self._count = 0
            return
        with self._changed:
            if self._count:
                self._workers.append(worker)
                self._idle.restart()
                self._changed.notify_all()
                return
        worker.end()


def _describe_error(error: BaseException) -> str:
    return str(error) or "the worker's process has ended"


def _start_worker(settings: WorkerSettings) -> _Worker:
    """Start a worker and wait until its index is up to date. Raises OSError or EOFError."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = start_child(
            [sys.executable, "-P", "-c", _SERVE, str(theirs.fileno())],
            {  # not the daemon's environment, which may contain keys
                "PATH": os.environ.get("PATH", ""),
                "PYTHONPATH": str(_ROOT),
                "OPENBLAS_NUM_THREADS": "1",
                "MALLOC_ARENA_MAX": "2",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    pipe = Pipe(ours.detach())
    try:
        version = _exchange(pipe, settings, _START_S)
    except BaseException:
        end_child(process)
        pipe.close()
        raise
    return _Worker(process, pipe, version)


def _exchange(pipe: Pipe, message: object, patience_s: float) -> Any:
    """Send a message and receive the reply. Raises OSError or EOFError without a reply
    in `patience_s` seconds."""
    pipe.send(message)
    if not pipe.poll(patience_s):
        raise TimeoutError(f"the worker did not reply within {patience_s:g} s")
    return pipe.recv()
