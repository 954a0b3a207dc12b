"""Bulk work rests while somebody asks, and comes to its end all the same."""

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
from hopsyncd.index.precedence import asking, giving_way, hand_over_soon, politely, waiting
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROOT = Path(__file__).parents[2]
_WORK_S = 0.05
_TIMES = 4.0
_QUIET_S = 0.05  # more than what is waited for without a question


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


def _politely_once(times: float = _TIMES) -> threading.Thread:
    def run() -> None:
        with giving_way(times):
            assert politely(_work)(3) == 6

    return threading.Thread(target=run)


def test_bulk_work_rests_while_somebody_asks() -> None:
    with asking():
        assert _took_s(_politely_once()) >= (1 + _TIMES) * _WORK_S


def test_pieces_that_are_short_share_a_rest() -> None:
    pieces, piece_s, took_s = 50, 0.002, list[float]()
    with asking(), giving_way(_TIMES):
        compute = politely(_compute)
        for _ in range(pieces):
            began_s = time.monotonic()
            compute(piece_s)
            took_s.append(time.monotonic() - began_s)
    rests_s = [one for one in took_s if one > 10 * piece_s]
    assert 0 < len(rests_s) <= pieces / 5
    assert sum(rests_s) >= _TIMES * pieces * piece_s / 2


def test_what_was_worked_while_nobody_asked_is_rested_from_once_somebody_does() -> None:
    time.sleep(_QUIET_S)
    with giving_way(_TIMES):
        compute = politely(_compute)
        compute(_WORK_S)
        with asking():
            began_s = time.monotonic()
            compute(0.001)
            assert time.monotonic() - began_s >= _WORK_S


def test_it_goes_on_when_nobody_asks_any_more() -> None:
    asked, ended_s = threading.Event(), list[float]()

    def ask() -> None:
        with asking():
            asked.set()
            time.sleep(2 * _WORK_S)
            ended_s.append(time.monotonic())

    question = threading.Thread(target=ask)
    question.start()
    asked.wait()
    took_s = _took_s(_politely_once(100.0))
    assert ended_s  # it rested until then
    assert took_s < 50 * _WORK_S
    question.join()


def test_it_rests_not_at_all_where_nobody_asks() -> None:
    time.sleep(_QUIET_S)
    assert _took_s(_politely_once(100.0)) < 20 * _WORK_S


def test_who_waits_for_another_thread_does_not_make_it_rest() -> None:
    with asking(), waiting():
        time.sleep(_QUIET_S)
        assert _took_s(_politely_once(100.0)) < 20 * _WORK_S


def test_it_does_not_rest_while_somebody_waits_for_it() -> None:
    with asking(), asking(), waiting():  # one waits, another computes
        assert _took_s(_politely_once(100.0)) < 20 * _WORK_S


def test_waiting_for_something_else_is_no_work() -> None:
    with asking(), giving_way(100.0):
        began_s = time.monotonic()
        politely(time.sleep)(_WORK_S)
        assert time.monotonic() - began_s < 20 * _WORK_S


def test_a_thread_that_computes_hands_the_lock_over_soon() -> None:
    times, was_s, ended = 100, sys.getswitchinterval(), threading.Event()

    def compute() -> None:
        while not ended.is_set():
            pass

    hand_over_soon()
    computing = threading.Thread(target=compute)
    computing.start()
    began_s = time.monotonic()
    for _ in range(times):
        time.sleep(0)  # gives the lock away, and wants it back
    took_s = time.monotonic() - began_s
    ended.set()
    computing.join()
    sys.setswitchinterval(was_s)
    assert took_s < times * was_s / 2


def test_a_thread_that_does_not_give_way_is_not_slowed() -> None:
    with asking():
        assert politely(_work) is _work


def test_the_threads_that_help_rest_too() -> None:
    with asking(), giving_way(_TIMES), ThreadPoolExecutor(1) as pool:
        began_s = time.monotonic()
        assert pool.submit(politely(_work), 3).result() == 6
        assert time.monotonic() - began_s >= (1 + _TIMES) * _WORK_S


def test_threads_that_share_work_rest_for_one_another() -> None:
    with asking(), giving_way(_TIMES), ThreadPoolExecutor(2) as pool:
        began_s = time.monotonic()
        assert [*pool.map(politely(_work), [3, 4])] == [6, 8]
        assert time.monotonic() - began_s >= 2 * _TIMES * _WORK_S


@pytest.mark.parametrize(("documents", "read_s"), [(150, 0.002), (20, 0.02)])
def test_many_documents_are_read_in_the_pauses_between_questions(
    tmp_path: Path, documents: int, read_s: float
) -> None:
    def slowly(data: bytes, media: str) -> tuple[Block, ...]:
        _compute(read_s)
        return extract(data, media)

    files = MemoryConnector({f"{n}.md": b"Rome fell." for n in range(documents)})
    with closing(Stack(tmp_path / "s.db", files, extract=slowly, batch_documents=1000)) as stack:
        began_s = time.monotonic() - time.thread_time()
        with asking():
            stack.sync()
        rested_s = time.monotonic() - time.thread_time() - began_s
    assert (rested_s > 4 * read_s * documents) == (documents > 100)


_ENDLESS = """
import itertools, threading, time
from hopsyncd.index.precedence import ProcessEnds, giving_way, politely
from hopsyncd.index.vector_pairs import shared

def work():
    with giving_way(1.0):
        try:
            for _ in %s(politely(time.sleep), itertools.repeat(0.001)):
                pass
        except ProcessEnds:
            print("given up")

threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("each", ["map", "shared"])
def test_bulk_work_is_given_up_when_the_process_ends(each: str) -> None:
    said = subprocess.check_output([sys.executable, "-c", _ENDLESS % each], cwd=ROOT, timeout=60)
    assert said == b"given up\n"
