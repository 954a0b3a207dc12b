"""Clients that come while a daemon starts."""

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hopsyncd.client import AsyncClient, Client, starting
from hopsyncd.client.starting import StartLock, is_starting, wait_while_starting
from hopsyncd.errors import DaemonUnavailable


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run" / "s"


def ask(place: Path) -> None:
    Client(place).health()


def ask_async(place: Path) -> None:
    async def health() -> None:
        async with AsyncClient(place) as client:
            await client.health()

    asyncio.run(health())


@pytest.mark.parametrize("asks", [ask, ask_async])
def test_a_client_waits_for_a_starting_daemon_and_says_that_it_is_starting(
    place: Path, asks: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "START_S", 0.2)
    lock = StartLock(place, may_create_folder=True)
    with pytest.raises(DaemonUnavailable, match="the daemon is still starting"):
        asks(place)
    lock.release()
    with pytest.raises(DaemonUnavailable, match="nothing listens"):
        asks(place)


def test_the_wait_ends_when_the_daemon_listens(place: Path) -> None:
    lock = StartLock(place, may_create_folder=True)
    assert is_starting(place)
    waited = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        for steps, _ in enumerate(wait_while_starting(place)):
            waited.set()
            if steps == 2:
                listener.bind(str(place))
                listener.listen()
            assert steps < 3
    assert waited.is_set()
    lock.release()


def test_several_daemons_may_start_at_once_and_a_failed_start_is_not_announced(place: Path) -> None:
    first, second = (StartLock(place, may_create_folder=True) for _ in range(2))
    first.release()
    assert is_starting(place)
    second.release()
    assert not is_starting(place)


def test_without_a_folder_of_its_own_a_start_is_not_announced(place: Path) -> None:
    StartLock(place, may_create_folder=False).release()
    assert not place.parent.exists()
    assert not is_starting(place)
