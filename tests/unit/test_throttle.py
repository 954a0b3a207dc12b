"""Bulk work pauses while queries run, and still finishes."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract
from hopsyncd.index.throttle import (
    running_query,
    shorten_switch_interval,
    throttle,
    waiting_for_work,
    yielding_to_queries,
)
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROOT = Path(__file__).parents[2]
_WORK_S = 0.05
_FACTOR = 4.0
_QUIET_S = 0.05  # longer than bulk work waits after the last query


def _compute(for_s: float) -> None:
    end_s = time.thread_time() + for_s
    while time.thread_time() < end_s:
        pass


def _work(part: int) -> int:
    _compute(_WORK_S)
    return 2 * part


def _took_s(work: threading.Thread) -> float:
    began_s = time.monotonic()
    work.start()
    work.join()
    return time.monotonic() - began_s


def _throttled_thread(factor: float = _FACTOR) -> threading.Thread:
    def run() -> None:
        with yielding_to_queries(factor):
            assert throttle(_work)(3) == 6

    return threading.Thread(target=run)


def test_bulk_work_pauses_while_a_query_runs() -> None:
    with running_query():
        assert _took_s(_throttled_thread()) >= (1 + _FACTOR) * _WORK_S


def test_short_parts_share_a_pause() -> None:
    parts, part_s, took_s = 50, 0.002, list[float]()
    with running_query(), yielding_to_queries(_FACTOR):
        compute = throttle(_compute)
        for _ in range(parts):
            began_s = time.monotonic()
            compute(part_s)
            took_s.append(time.monotonic() - began_s)
    pauses_s = [each_s for each_s in took_s if each_s > 10 * part_s]
    assert 0 < len(pauses_s) <= parts / 5
    assert sum(pauses_s) >= _FACTOR * parts * part_s / 2


def test_work_done_before_a_query_is_paused_for_once_it_runs() -> None:
    time.sleep(_QUIET_S)
    with yielding_to_queries(_FACTOR):
        compute = throttle(_compute)
        compute(_WORK_S)
        with running_query():
            began_s = time.monotonic()
            compute(0.001)
            assert time.monotonic() - began_s >= _WORK_S


def test_a_pause_ends_when_no_query_runs_any_more() -> None:
    asked, ended_s = threading.Event(), list[float]()

    def ask() -> None:
        with running_query():
            asked.set()
            time.sleep(2 * _WORK_S)
            ended_s.append(time.monotonic())

    query = threading.Thread(target=ask)
    query.start()
    asked.wait()
    took_s = _took_s(_throttled_thread(100.0))
    assert ended_s  # it paused until then
    assert took_s < 50 * _WORK_S
    query.join()


def test_without_queries_there_is_no_pause() -> None:
    time.sleep(_QUIET_S)
    assert _took_s(_throttled_thread(100.0)) < 20 * _WORK_S


def test_a_query_that_waits_for_another_thread_causes_no_pause() -> None:
    with running_query(), waiting_for_work():
        time.sleep(_QUIET_S)
        assert _took_s(_throttled_thread(100.0)) < 20 * _WORK_S


def test_work_that_a_query_waits_for_does_not_pause() -> None:
    with running_query(), running_query(), waiting_for_work():  # one waits, another computes
        assert _took_s(_throttled_thread(100.0)) < 20 * _WORK_S


def test_waiting_does_not_count_as_work() -> None:
    with running_query(), yielding_to_queries(100.0):
        began_s = time.monotonic()
        throttle(time.sleep)(_WORK_S)
        assert time.monotonic() - began_s < 20 * _WORK_S


def test_a_computing_thread_releases_the_interpreter_lock_soon() -> None:
    times, was_s, ended = 100, sys.getswitchinterval(), threading.Event()

    def compute() -> None:
        while not ended.is_set():
            pass

    shorten_switch_interval()
    computing = threading.Thread(target=compute)
    computing.start()
    began_s = time.monotonic()
    for _ in range(times):
        time.sleep(0)  # releases the lock, and takes it again
    took_s = time.monotonic() - began_s
    ended.set()
    computing.join()
    sys.setswitchinterval(was_s)
    assert took_s < times * was_s / 2


def test_a_thread_that_does_not_yield_is_not_slowed() -> None:
    with running_query():
        assert throttle(_work) is _work


def test_helper_threads_pause_too() -> None:
    with running_query(), yielding_to_queries(_FACTOR), ThreadPoolExecutor(1) as pool:
        began_s = time.monotonic()
        assert pool.submit(throttle(_work), 3).result() == 6
        assert time.monotonic() - began_s >= (1 + _FACTOR) * _WORK_S


def test_threads_that_share_work_pause_for_each_other() -> None:
    with running_query(), yielding_to_queries(_FACTOR), ThreadPoolExecutor(2) as pool:
        began_s = time.monotonic()
        assert [*pool.map(throttle(_work), [3, 4])] == [6, 8]
        assert time.monotonic() - began_s >= 2 * _FACTOR * _WORK_S


@pytest.mark.parametrize(("documents", "read_s"), [(150, 0.002), (20, 0.02)])
def test_reading_many_documents_pauses_while_a_query_runs(
    tmp_path: Path, documents: int, read_s: float
) -> None:
    def slowly(data: bytes, media: str) -> tuple[Block, ...]:
        _compute(read_s)
        return extract(data, media)

    files = MemoryConnector({f"{n}.md": b"Rome fell." for n in range(documents)})
    with closing(Stack(tmp_path / "s.db", files, extract=slowly, batch_documents=1000)) as stack:
        began_s = time.monotonic() - time.thread_time()
        with running_query():
            stack.sync()
        paused_s = time.monotonic() - time.thread_time() - began_s
    assert (paused_s > 4 * read_s * documents) == (documents > 100)


_ENDLESS = """
import itertools, threading, time
from hopsyncd.index.throttle import ProcessEnds, throttle, yielding_to_queries

def work():
    with yielding_to_queries(1.0):
        try:
            for _ in map(throttle(time.sleep), itertools.repeat(0.001)):
                pass
        except ProcessEnds:
            print("abandoned")

threading.Thread(target=work).start()
"""


def test_bulk_work_is_abandoned_when_the_process_ends() -> None:
    output = subprocess.check_output([sys.executable, "-c", _ENDLESS], cwd=ROOT, timeout=60)
    assert output == b"abandoned\n"
