"""The disk or the database engine refuses one call after the other: no version is ever half there.

What must hold in each round, during the fault and after it, is in tests/fakes/faulted_batch.py.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.schedule import make_interval
from hopsyncd.errors import SyncFailed
from hopsyncd.ingest.source_scheduler import Task
from hopsyncd.ingest.source_thread import Interruptions
from hopsyncd.ingest.sync_worker import SyncWorker, WritePath
from store.contract import Connection
from store.engines.sqlite.database import FileConnection
from store.exceptions import DatabaseGone, DiskFailure
from store.records import Version
from tests.fakes.faulted_batch import Before, prepare, run
from tests.fakes.faulty_io import build
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

# What a checkpoint or the sync of a folder cannot do is left to the next, without an error.
TOLERANT = ("often checkpointing", "creating", "backup")
ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
FULL = DiskFailure("Cannot use the database", "the disk is full", "Make room")
STEPS = int(os.environ.get("HOPSYNCD_INTERRUPTS", "60"))

# SQLite's action codes for its authorizer, and its answers.
WRITES = (9, 18, 22, 23)  # DELETE, INSERT, TRANSACTION, UPDATE
OK, DENY = 0, 1


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("the refusing disk is made with LD_PRELOAD, which is Linux' own")
    built = build(tmp_path_factory.mktemp("shim"))
    if built is None:
        pytest.skip("there is no C compiler (cc) to build the refusing disk with")
    return built


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    return prepare(tmp_path_factory.mktemp("before"))


# Scene, kind of call, and of how many calls one is refused, each in a round of its own. By night,
# and if HOPSYNCD_FAULTS is "all", all are.
SCENES = [
    ("plain", "write", 4),
    pytest.param("plain", "write", 1, marks=pytest.mark.nightly),
    ("plain", "sync", 1),
    ("plain", "read", 3),
    pytest.param("plain", "read", 1, marks=pytest.mark.nightly),
    ("often checkpointing", "write", 6),
    pytest.param("often checkpointing", "write", 1, marks=pytest.mark.nightly),
    ("often checkpointing", "sync", 1),
    ("often checkpointing", "truncate", 1),
    ("spilling", "write", 8),
    pytest.param("spilling", "write", 1, marks=pytest.mark.nightly),
    ("long log", "write", 1),
    ("opening", "write", 1),
    ("opening", "read", 1),
    ("creating", "write", 8),
    pytest.param("creating", "write", 1, marks=pytest.mark.nightly),
    ("creating", "sync", 1),
    *(
        (scene, kind, stride)
        for scene in ("gc", "purge", "rebuild", "backup")
        for kind, stride in (("write", 16), ("sync", 1))
    ),
]


@pytest.mark.parametrize(("scene", "kind", "stride"), SCENES)
def test_whichever_call_the_disk_refuses_versions_are_whole_and_work_resumes(
    shim: Path, tmp_path: Path, scene: str, kind: str, stride: int
) -> None:
    each = "1" if os.environ.get("HOPSYNCD_FAULTS") == "all" else str(stride)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fakes.faulty_disk_rounds", shim, tmp_path, kind, scene, each],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    counts = json.loads(done.stdout)
    assert counts["rounds"]
    assert counts["failed"] == counts["rounds"] or scene in TOLERANT
    if (scene, kind) == ("plain", "sync"):
        assert counts["ahead"], "no commit was reported as failed and there after a kill"


class Denial:
    """An authorizer that denies the n-th statement, or part of one, that writes."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.seen = 0

    def __call__(self, action: int, *_: str | None) -> int:
        if action not in WRITES:
            return OK
        self.seen += 1
        return DENY if self.seen == self.nth else OK

    @contextmanager
    def at_work(self, connection: Connection) -> Iterator[None]:
        assert isinstance(connection, FileConnection)
        connection.set_authorizer(self)
        try:
            yield
        finally:
            connection.set_authorizer(None)


class Interrupt:
    """A progress handler that ends the statement that is at the n-th step of the engine."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.seen = 0

    def __call__(self) -> bool:
        self.seen += 1
        return self.seen == self.nth

    @contextmanager
    def at_work(self, connection: Connection) -> Iterator[None]:
        assert isinstance(connection, FileConnection)
        connection.set_progress_handler(self, 1)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 1)


def count(before: Before, folder: Path, never: Denial | Interrupt) -> int:
    assert not run(before, folder, never.at_work).failed
    return never.seen


def test_whichever_write_is_denied_to_a_table_or_an_extension_versions_are_whole(
    before: Before, tmp_path: Path
) -> None:
    """Those of vec0 and FTS5 to their own tables, and BEGIN and COMMIT, are among them."""
    writes = count(before, tmp_path / "round", Denial(0))
    assert writes > 30
    for nth in range(1, writes + 1):
        assert run(before, tmp_path / "round", Denial(nth).at_work).failed, nth


def test_wherever_a_statement_is_interrupted_versions_are_whole(
    before: Before, tmp_path: Path
) -> None:
    steps = count(before, tmp_path / "round", Interrupt(0))
    failures = [
        run(before, tmp_path / "round", Interrupt(nth).at_work).failed
        for nth in range(1, steps, steps // STEPS)
    ]
    assert len(failures) >= STEPS
    assert all(failures)


@contextmanager
def no_file_above(size: int, _: Connection) -> Iterator[None]:
    """Python ignores SIGXFSZ, so that a longer write is cut short, and the next one refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_wherever_the_disk_fills_up_versions_are_whole_and_work_resumes(
    before: Before, tmp_path: Path
) -> None:
    sizes: list[int] = []

    def measured(connection: Connection) -> "Iterator[None]":
        yield
        log = connection.execute("PRAGMA database_list").fetchone()[2] + "-wal"
        sizes.append(Path(log).stat().st_size)

    run(before, tmp_path / "round", contextmanager(measured))
    odd = 7919  # not a part of a page: writes are cut short in their midst
    limits = range(odd, sizes[0], odd)
    failures = [
        run(before, tmp_path / "round", partial(no_file_above, limit)).failed for limit in limits
    ]
    assert len(failures) >= 20
    assert all(failures)


class Opening:
    """The write path of a stack, as a worker opens it; `errors` are raised by the next openings."""

    def __init__(self, stack: Stack, errors: Sequence[Exception] = ()) -> None:
        self.stack = stack
        self.errors = list(errors)
        self.times = 0

    def __call__(self, _: Interruptions) -> WritePath:
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)
        return WritePath(self.stack.path, [Task(self.stack.source, make_interval(3600))])


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with closing(Stack(tmp_path / "a.db", MemoryConnector({"a.md": b"Rome is in Italy."}))) as made:
        yield made


@contextmanager
def working(opening: Opening) -> Iterator[tuple[SyncWorker, "Future[Any]"]]:
    """A worker, and the request that waited for it when it began."""
    worker = SyncWorker()
    first = worker.request((), accept_empty=False)
    worker.start(opening)
    yield worker, first
    assert worker.stop(WAIT_S)


def test_a_failure_to_serve_a_committed_version_restarts_the_worker(
    stack: Stack,
) -> None:
    def out_of_memory(_: Version) -> None:
        raise MemoryError("no memory for the graph")

    stack.path.on_version = out_of_memory
    opening = Opening(stack)
    with working(opening) as (worker, first):
        with pytest.raises(SyncFailed, match="no memory"):
            first.result(WAIT_S)
        assert worker.request((), accept_empty=False).result(WAIT_S)
        assert (opening.times, stack.head.id) == (2, 1)


def test_a_full_disk_leaves_the_write_path_open_and_the_next_request_is_tried(
    stack: Stack,
) -> None:
    refusals = [FULL]

    def refuse() -> None:
        if refusals:
            raise refusals.pop()

    stack.path.yield_to_edits = refuse
    opening = Opening(stack)
    with working(opening) as (worker, first):
        with pytest.raises(DiskFailure, match="full"):
            first.result(WAIT_S)
        assert worker.request((), accept_empty=False).result(WAIT_S)
        assert (opening.times, worker.error) == (1, None)


def test_an_overwritten_database_is_reported_when_its_pages_are_read_again(
    stack: Stack, tmp_path: Path
) -> None:
    sound = [True]

    def overwrite() -> None:
        if sound:
            sound.clear()
            stack.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            (tmp_path / "a.db").write_bytes(b"some text\n" * 100_000)
            stack.connection.execute("PRAGMA shrink_memory").fetchall()

    stack.path.yield_to_edits = overwrite  # on the worker's thread, in the middle of a sync
    with (
        working(Opening(stack)) as (_, first),
        pytest.raises(DatabaseGone, match="the file can no longer be read"),
    ):
        first.result(WAIT_S)


def test_clients_waiting_for_a_database_that_does_not_open_get_an_error(stack: Stack) -> None:
    opening = Opening(stack, [FULL])
    with working(opening) as (worker, first):
        with pytest.raises(DiskFailure, match="full"):
            first.result(WAIT_S)
        assert worker.request((), accept_empty=False).result(WAIT_S)
        assert (opening.times, worker.error) == (2, None)
