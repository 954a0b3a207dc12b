"""The lock that is given in the order in which it was asked for."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hopsyncd.models.encoder import FairLock


def test_a_thread_that_asks_again_comes_after_waiting_threads() -> None:
    turns = FairLock()
    order: list[str] = []

    def take(name: str) -> None:
        with turns:
            order.append(name)

    others = [threading.Thread(target=take, args=[name]) for name in ("second", "third")]
    with turns:
        order.append("first")
        for number, other in enumerate(others, 1):
            other.start()
            while len(turns._waiting) < number:
                time.sleep(0.001)
    take("first again")
    for other in others:
        other.join()
    assert order == ["first", "second", "third", "first again"]


def test_one_thread_at_a_time_holds_the_lock_and_all_get_it() -> None:
    turns = FairLock()
    inside = most = 0

    def work(_: int) -> None:
        nonlocal inside, most
        for _ in range(200):
            with turns:
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert (inside, most) == (0, 1)


def test_an_error_releases_the_lock_for_the_next_thread() -> None:
    turns = FairLock()
    with pytest.raises(KeyError), turns:
        raise KeyError
    with turns:
        pass
