"""The worker: whoever waits for it is told how it went, whatever happens to it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread

import pytest

from hopsyncd.errors import BadRequest, SyncFailed
from hopsyncd.sync.sync import SourceSync
from hopsyncd.sync.worker import SyncWorker, Task
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

WAIT_S = 10.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "a.db", MemoryConnector({"a.md": b"Rome is in Italy."}))
    yield made
    made.close()


@pytest.fixture
def worker(stack: Stack) -> Iterator[SyncWorker]:
    def open_path(
        between: Callable[[], None], check_stop: Callable[[], None]
    ) -> tuple[SourceSync, Sequence[Task], bool]:
        stack.path.between, stack.path.check_stop = between, check_stop
        return stack.path, [Task(stack.source, 3600)], False

    made = SyncWorker(open_path)
    yield made
    made.stop(WAIT_S)


def test_a_request_is_answered_when_all_is_served(worker: SyncWorker, stack: Stack) -> None:
    worker.start()
    (outcome,) = worker.request((), accept_empty=False).result(WAIT_S)
    assert (outcome.source, outcome.problem) == ("notes", None)
    assert stack.head.documents == 1


def test_a_job_runs_between_two_syncs_and_its_result_comes_back(worker: SyncWorker) -> None:
    worker.start()
    assert worker.submit(lambda path: path.passage_tokens).result(WAIT_S) == 12


def test_a_refused_job_is_told_so_and_the_work_goes_on(worker: SyncWorker) -> None:
    def refuse(_: SourceSync) -> None:
        raise BadRequest("No", "never", "Do not ask")

    refused, request = worker.submit(refuse), worker.request((), accept_empty=False)
    worker.start()
    with pytest.raises(BadRequest, match="never"):
        refused.result(WAIT_S)
    assert request.result(WAIT_S)
    assert worker.error is None


def test_a_job_that_breaks_leaves_nobody_waiting(worker: SyncWorker) -> None:
    def break_down(_: SourceSync) -> None:
        raise RuntimeError("out of memory")

    broken, request = worker.submit(break_down), worker.request((), accept_empty=False)
    worker.start()
    for future in (broken, request):
        with pytest.raises(SyncFailed, match="out of memory"):
            future.result(WAIT_S)


def test_who_waits_at_the_stop_is_told(worker: SyncWorker) -> None:
    def stop(path: SourceSync) -> None:
        stopper = Thread(target=worker.stop, args=(0,))
        stopper.start()
        stopper.join(WAIT_S)
        path.check_stop()

    first = worker.submit(stop)
    second = worker.submit(lambda _: None)
    request = worker.request((), accept_empty=False)
    worker.start()
    for future in (first, second, request):
        with pytest.raises(SyncFailed, match="the daemon stops"):
            future.result(WAIT_S)


def test_who_comes_after_the_stop_is_told(worker: SyncWorker) -> None:
    worker.start()
    assert worker.stop(WAIT_S)
    for future in (worker.submit(lambda _: None), worker.request((), accept_empty=False)):
        with pytest.raises(SyncFailed, match="the daemon stops"):
            future.result(WAIT_S)


def test_who_waits_cannot_cancel_the_work(worker: SyncWorker) -> None:
    request = worker.request((), accept_empty=False)
    assert not request.cancel()
    worker.start()
    assert request.result(WAIT_S)
