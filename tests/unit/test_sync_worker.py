"""The worker: whoever waits for it is told how it went, whatever happens to it."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import cast

import pytest

from connectors.protocol import Found
from hopsyncd.config.schedule import make_interval
from hopsyncd.errors import BadRequest, SyncFailed
from hopsyncd.ingest.follower import Follower, NotWriter
from hopsyncd.ingest.generation_switch import GenerationSwitch
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.source_scheduler import Chore, Clocks, Task
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.source_thread import Interruptions
from hopsyncd.ingest.sync_worker import SyncWorker, WritePath
from store.contract import Connection
from store.operational import read_jobs
from store.reads import read_live_documents
from store.records import Version, hash_content
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

WAIT_S = 60.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "a.db", MemoryConnector({"a.md": b"Rome is in Italy."}))
    yield made
    made.close()


def opened(stack: Stack, interruptions: Interruptions) -> WritePath:
    stack.path.yield_to_edits = interruptions.yield_to_edits
    stack.path.is_awaited = interruptions.is_awaited
    return WritePath(stack.path, [Task(stack.source, make_interval(3600))])


@pytest.fixture
def worker(stack: Stack) -> Iterator[SyncWorker]:
    """Stops before the stack is closed."""
    made = SyncWorker()
    yield made
    made.stop(WAIT_S)


@pytest.fixture
def start(worker: SyncWorker, stack: Stack) -> Callable[[], None]:
    """Starts the worker over the stack."""
    return lambda: worker.start(partial(opened, stack))


def test_a_request_is_answered_when_all_is_served(
    worker: SyncWorker, start: Callable[[], None], stack: Stack
) -> None:
    start()
    (outcome,) = worker.request((), accept_empty=False).result(WAIT_S)
    assert (outcome.source, outcome.problem) == ("notes", None)
    assert stack.head.documents == 1


def test_a_job_runs_between_two_syncs_and_its_result_comes_back(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    start()
    assert worker.submit(lambda path: path.passage_tokens).result(WAIT_S) == 12


def test_a_source_counts_as_behind_until_its_first_scan(stack: Stack) -> None:
    is_opened = Event()

    def open_path(interruptions: Interruptions) -> WritePath:
        assert is_opened.wait(WAIT_S)
        return opened(stack, interruptions)

    worker = SyncWorker()
    worker.start(open_path)
    assert worker.pending
    is_opened.set()
    while worker.pending:
        time.sleep(0.001)
    assert stack.head.documents == 1
    worker.stop(WAIT_S)


def test_a_failure_is_reported_before_pending_is_cleared(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    seen: list[bool] = []

    class Failure(Exception):
        def __str__(self) -> str:
            seen.append(worker.pending or worker.error is not None)
            return "it broke"

    def fail(_: SourceSync) -> None:
        raise Failure

    start()
    with pytest.raises(SyncFailed):
        worker.submit(fail).result(WAIT_S)
    while worker.pending:
        time.sleep(0.001)
    assert worker.error == "it broke"
    assert seen and all(seen)


def test_a_worker_that_was_never_started_stops_at_once(worker: SyncWorker) -> None:
    assert worker.stop(WAIT_S)


def test_a_refused_job_gets_an_error_and_work_continues(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    def refuse(_: SourceSync) -> None:
        raise BadRequest("No", "never", "Do not ask")

    refused, request = worker.submit(refuse), worker.request((), accept_empty=False)
    start()
    with pytest.raises(BadRequest, match="never"):
        refused.result(WAIT_S)
    assert request.result(WAIT_S)
    assert worker.error is None


class Elected(Follower):
    def start_requested_syncs(self, connection: Connection, request: object) -> None:
        """Nobody asks."""


def test_a_job_that_only_the_writer_does_is_refused_elsewhere_and_never_runs(
    stack: Stack, tmp_path: Path
) -> None:
    ran: list[SourceSync] = []
    follower = Elected("postgresql://", SavedIndex(tmp_path / "index"))
    worker = SyncWorker(follower)
    with pytest.raises(NotWriter):
        worker.submit(ran.append).result(WAIT_S)
    follower.is_writer = True
    worker.start(partial(opened, stack))
    worker.submit(lambda _: None).result(WAIT_S)
    worker.stop(WAIT_S)
    assert ran == []


class EndlessSwitch:
    """A switch that always has another piece."""

    due_s, progress, has_begun = 0.0, None, False

    def run(self, go_on: Callable[[], bool]) -> None:
        self.has_begun = True
        while go_on():
            time.sleep(0.01)


def test_followers_are_heard_during_a_long_switch(stack: Stack, tmp_path: Path) -> None:
    switch, was_heard = EndlessSwitch(), Event()

    class Listening(Follower):
        def start_requested_syncs(self, connection: Connection, request: object) -> None:
            if switch.has_begun:
                was_heard.set()

    follower = Listening("postgresql://", SavedIndex(tmp_path / "index"))
    follower.is_writer = True
    stack.path.switch = cast(GenerationSwitch, switch)
    worker = SyncWorker(follower)
    worker.start(partial(opened, stack))
    assert was_heard.wait(WAIT_S)
    assert worker.stop(WAIT_S)


def test_a_job_that_breaks_leaves_nobody_waiting(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    def break_down(_: SourceSync) -> None:
        raise RuntimeError("out of memory")

    broken, request = worker.submit(break_down), worker.request((), accept_empty=False)
    start()
    for future in (broken, request):
        with pytest.raises(SyncFailed, match="out of memory"):
            future.result(WAIT_S)


def test_waiters_get_an_error_when_the_daemon_stops(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    def stop(pipeline: SourceSync) -> None:
        stopper = Thread(target=worker.stop, args=(0,))
        stopper.start()
        stopper.join(WAIT_S)
        pipeline.yield_to_edits()

    first = worker.submit(stop)
    second = worker.submit(lambda _: None)
    request = worker.request((), accept_empty=False)
    start()
    for future in (first, second, request):
        with pytest.raises(SyncFailed, match="the daemon is stopping"):
            future.result(WAIT_S)


def test_requests_after_the_stop_get_an_error(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    start()
    assert worker.stop(WAIT_S)
    for future in (worker.submit(lambda _: None), worker.request((), accept_empty=False)):
        with pytest.raises(SyncFailed, match="the daemon is stopping"):
            future.result(WAIT_S)


def test_waiters_for_a_source_that_a_job_removes_are_answered_once(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    planned = worker.submit(lambda _: worker.plan([], ()))
    request = worker.request((), accept_empty=False)
    start()
    planned.result(WAIT_S)
    assert request.result(WAIT_S) == ()
    assert worker.submit(lambda _: "next").result(WAIT_S) == "next"
    assert worker.error is None


def test_cancelling_a_wait_does_not_cancel_the_work(
    worker: SyncWorker, start: Callable[[], None]
) -> None:
    request = worker.request((), accept_empty=False)
    assert not request.cancel()
    start()
    assert request.result(WAIT_S)


class HandClocks:
    """Two clocks that tests set."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_s = 1_000_000_000_000, 50.0

    def pass_s(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.steady_s += seconds

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.wall_ms, lambda: self.steady_s)


Scheduled = Callable[..., SyncWorker]


@pytest.fixture
def hand() -> HandClocks:
    return HandClocks()


@pytest.fixture
def scheduled(stack: Stack, hand: HandClocks) -> Iterator[Scheduled]:
    """Starts a worker over the same store, with its chores and its source's times."""
    made: list[SyncWorker] = []

    def start(*chores: Chore, at_start: bool = True) -> SyncWorker:
        while made:
            made.pop().stop(WAIT_S)

        def open_path(interruptions: Interruptions) -> WritePath:
            stack.path.upgrades.due_s = 1e9  # by the real clock
            task = Task(stack.source, make_interval(300), make_interval(86400), at_start)
            return replace(opened(stack, interruptions), tasks=[task], chores=chores)

        made.append(SyncWorker(clocks=hand.clocks()))
        made[0].start(open_path)
        settle(made[0])
        return made[0]

    yield start
    for worker in made:
        worker.stop(WAIT_S)


def settle(worker: SyncWorker) -> None:
    """Let the worker look at its clocks and do all that is due: a job begins a turn."""
    for _ in range(3):
        worker.submit(lambda _: None).result(WAIT_S)
        while worker.pending:
            time.sleep(0.001)


def ran_s(stack: Stack, hand: HandClocks) -> dict[str, tuple[float, bool]]:
    """How many seconds ago each job ran last, and whether that succeeded."""
    return {
        name: ((hand.wall_ms - row.ran_ms) / 1000, row.error is None)
        for name, row in read_jobs(stack.connection).items()
    }


def test_chores_run_by_themselves_when_they_are_due(
    scheduled: Scheduled, stack: Stack, hand: HandClocks
) -> None:
    done: list[float] = []
    worker = scheduled(Chore("sweep", make_interval(1000), lambda _: done.append(hand.steady_s)))
    assert done == [50.0]
    hand.pass_s(900)
    settle(worker)
    assert done == [50.0]
    hand.pass_s(101)
    settle(worker)
    assert done == [50.0, 1051.0]
    assert ran_s(stack, hand)["sweep"] == (0.0, True)


def test_a_chore_that_fails_is_noted_and_tried_again_and_harms_no_sync(
    scheduled: Scheduled, stack: Stack, hand: HandClocks
) -> None:
    tries: list[float] = []

    def fail(_: SourceSync) -> None:
        tries.append(hand.steady_s)
        raise BadRequest("Cannot sweep", "the broom is away", "Bring it back")

    worker = scheduled(Chore("sweep", make_interval(86400), fail))
    settle(worker)
    assert len(tries) == 1
    assert worker.error is None
    row = read_jobs(stack.connection)["sweep"]
    assert row.succeeded_ms is None and "the broom is away" in (row.error or "")
    hand.pass_s(901)
    settle(worker)
    assert len(tries) == 2
    assert worker.request((), accept_empty=False).result(WAIT_S)


def test_scans_run_at_their_times_and_a_wanted_one_counts(
    scheduled: Scheduled, stack: Stack, hand: HandClocks
) -> None:
    worker = scheduled()
    hand.pass_s(200)
    worker.request((), accept_empty=False).result(WAIT_S)
    hand.pass_s(299)
    settle(worker)
    assert ran_s(stack, hand)["scan notes"] == (299.0, True)
    hand.pass_s(1)
    settle(worker)
    assert ran_s(stack, hand)["scan notes"] == (0.0, True)


def test_a_source_that_is_away_is_noted_as_failed(
    scheduled: Scheduled, stack: Stack, hand: HandClocks
) -> None:
    worker = scheduled()
    stack.connector.available = False  # type: ignore[attr-defined]
    hand.pass_s(300)
    settle(worker)
    row = read_jobs(stack.connection)["scan notes"]
    assert row.error == "it is away"
    assert row.succeeded_ms == row.ran_ms - 300_000


def test_after_a_restart_the_last_run_still_counts(
    scheduled: Scheduled, stack: Stack, hand: HandClocks
) -> None:
    done: list[str] = []
    chore = Chore("sweep", make_interval(86400), lambda _: done.append("sweep"))
    scheduled(chore)
    hand.pass_s(200)
    scheduled(chore, at_start=False)
    assert done == ["sweep"]
    assert ran_s(stack, hand)["scan notes"] == (200.0, True)
    hand.wall_ms += 5 * 86_400_000  # it slept
    scheduled(chore, at_start=False)
    assert done == ["sweep"] * 2
    assert ran_s(stack, hand)["scan notes"] == (0.0, True)


def test_the_plan_names_every_job_and_its_next_time(scheduled: Scheduled, hand: HandClocks) -> None:
    worker = scheduled(Chore("sweep", make_interval(1000), lambda _: None))
    planned = {run.job: (run.next_ms - hand.wall_ms) / 1000 for run in worker.list_next_runs()[:-1]}
    assert planned == {"sweep": 1000, "scan notes": 300, "full scan notes": 86400}


class LateNews(MemoryConnector):
    """Something changes while it is listed: `tell` is called once, as file events would."""

    def __init__(self) -> None:
        super().__init__({"a.md": b"Rome is in Italy."})
        self.tell: Callable[[], None] | None = None

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        yield from super().discover(since, under)
        if self.tell:
            self.tell()
            self.tell = None


def test_a_change_event_during_a_scan_causes_another_scan(tmp_path: Path) -> None:
    connector = LateNews()
    stack = Stack(tmp_path / "a.db", connector)

    worker = SyncWorker()
    connector.tell = lambda: worker.add_change("notes", None)
    worker.start(partial(opened, stack))
    settle(worker)
    worker.stop(WAIT_S)
    stack.close()
    assert len(connector.listings) == 2


def test_a_change_event_for_everything_drops_no_path(tmp_path: Path) -> None:
    connector = MemoryConnector({f"{number:02}.md": b"Rome is in Italy." for number in range(20)})
    stack = Stack(tmp_path / "a.db", connector, batch_documents=5)
    seen: list[bytes] = []

    worker = SyncWorker()

    def told(version: Version) -> None:
        if len(seen) == 0:
            connector.put("00.md", b"Rome is in Gaul.")
            for paths in (None, ["00.md"], None):
                worker.add_change("notes", paths)
        live = read_live_documents(stack.connection, stack.source.id)
        seen.append(live["00.md"])

    stack.path.on_version = told
    worker.start(partial(opened, stack))
    settle(worker)
    worker.stop(WAIT_S)
    stack.close()
    assert seen[1] == hash_content(b"Rome is in Gaul."), "it waits for what came before it"


def test_a_chore_that_goes_on_elsewhere_begins_once_and_delays_no_sync(
    scheduled: Scheduled, stack: Stack, hand: HandClocks
) -> None:
    begun: list[Future[None]] = []

    def begin(_: SourceSync) -> Future[None]:
        begun.append(Future())
        return begun[-1]

    worker = scheduled(Chore("copy", make_interval(1000), begin))
    hand.pass_s(5000)
    settle(worker)
    assert len(begun) == 1 and "copy" not in ran_s(stack, hand)
    worker.request([], False).result(WAIT_S)
    begun[0].set_exception(BadRequest("Cannot copy", "the disk is full", "Free some space"))
    settle(worker)
    assert ran_s(stack, hand)["copy"] == (0.0, False)
    hand.pass_s(1001)
    settle(worker)
    begun[1].set_result(None)
    settle(worker)
    assert ran_s(stack, hand)["copy"] == (0.0, True)
