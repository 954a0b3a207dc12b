"""Binding the socket: ours alone, never another's, gone when we go."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hopsyncd.api import server
from hopsyncd.api.server import bind_address, bind_socket, open_listeners
from hopsyncd.config.configuration import Config
from hopsyncd.errors import AlreadyRunning, SocketRefused
from tests.fakes.port import free_port


@pytest.fixture
def path() -> Iterator[Path]:
    """Where to bind: short, because a socket's path has room for 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="hop-") as folder:
        yield Path(folder) / "run/s.sock"


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(60)
        client.connect(str(path))


def leave_stale(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))


def test_only_the_owner_can_reach_it_and_it_goes_at_the_end(path: Path) -> None:
    before = os.umask(0)
    try:
        with bind_socket(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            connect(path)
    finally:
        os.umask(before)
    assert not path.exists()


def test_the_umask_is_restored(path: Path) -> None:
    before = os.umask(0o027)
    try:
        with bind_socket(path):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_second_daemon_is_refused_and_the_first_keeps_serving(path: Path) -> None:
    with bind_socket(path):
        with pytest.raises(AlreadyRunning, match="another hopsyncd"), bind_socket(path):
            pass
        connect(path)
    assert not path.exists()


def test_a_living_socket_without_our_lock_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as foreign:
        foreign.bind(str(path))
        foreign.listen()
        with pytest.raises(AlreadyRunning), bind_socket(path):
            pass
        connect(path)


def test_a_stale_socket_is_taken_over(path: Path) -> None:
    leave_stale(path)
    with bind_socket(path):
        connect(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link to a stale socket"])
def test_anything_else_at_the_path_is_refused_and_left_alone(path: Path, kind: str) -> None:
    path.parent.mkdir(mode=0o700)
    match kind:
        case "file":
            path.write_text("precious")
        case "folder":
            path.mkdir()
        case _:
            leave_stale(path.parent / "run/elsewhere")
            path.symlink_to(path.parent / "run/elsewhere")
    before = path.lstat()
    with pytest.raises(SocketRefused, match="not a socket"), bind_socket(path):
        pass
    assert path.lstat() == before


def test_too_long_a_path_is_refused_before_anything_is_made(path: Path) -> None:
    long = path.parent / ("x" * 108)
    with pytest.raises(SocketRefused, match="longer than 107 bytes"), bind_socket(long):
        pass
    assert not path.parent.exists()


def test_a_socket_with_the_longest_path_works(path: Path) -> None:
    long = path.parent / ("x" * (107 - len(os.fsencode(path.parent)) - 1))
    with bind_socket(long):
        connect(long)


def test_a_folder_that_others_may_enter_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o750)
    with pytest.raises(SocketRefused, match="0750") as refused, bind_socket(path):
        pass
    assert "chmod 700" in refused.value.hint
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(path: Path) -> None:
    path.parent.write_text("a file")
    with pytest.raises(SocketRefused, match="Cannot use the socket's folder"), bind_socket(path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.chown(path.parent, 12345, -1)
    with pytest.raises(SocketRefused, match="belongs to user 12345"), bind_socket(path):
        pass


def test_a_socket_that_took_our_place_is_not_removed(path: Path) -> None:
    with bind_socket(path), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        path.unlink()
        other.bind(str(path))
    assert path.is_socket()


def test_the_socket_is_removed_when_the_daemon_fails(path: Path) -> None:
    with pytest.raises(RuntimeError), bind_socket(path):
        raise RuntimeError("failed")
    assert not path.exists()
    with bind_socket(path):
        connect(path)


@pytest.mark.parametrize(
    ("page", "hint"),
    [
        ({}, "remove web.listen, and set access.page"),
        (
            {"page": "https://localhost", "behind_proxy": ["127.0.0.1"]},
            "Remove web.listen: access.page",
        ),
    ],
)
def test_two_listeners_on_one_address_are_refused(
    path: Path, page: dict[str, object], hint: str
) -> None:
    address = {"listen": f"127.0.0.1:{free_port()}"}
    places = {"socket": str(path), "data_dir": str(path.parent)}
    config = Config.model_validate({"daemon": places, "access": address | page, "web": address})
    with (
        pytest.raises(SocketRefused, match="are the same address") as refused,
        ExitStack() as stack,
    ):
        open_listeners(stack, config)
    assert hint in str(refused.value)


def test_a_signal_at_any_step_of_the_start_leaves_no_socket(path: Path) -> None:
    places = {"socket": str(path), "data_dir": str(path.parent)}
    config = Config.model_validate({"daemon": places})
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for step in itertools.count(1):
            steps = 0

            def trace(frame: FrameType, event: str, arg: object, step: int = step) -> Any:
                nonlocal steps
                if frame.f_code.co_filename not in (server.__file__, contextlib.__file__):
                    return None  # such as what the collector of garbage ends meanwhile
                steps += 1
                if steps == step:
                    sys.settrace(None)
                    signal.raise_signal(signal.SIGTERM)
                return trace

            with suppress(SystemExit), ExitStack() as stack:
                sys.settrace(trace)
                try:
                    open_listeners(stack, config)
                finally:
                    sys.settrace(None)
            assert not path.exists(), f"the socket was left at step {step}"
            if steps < step:
                break
        assert step > 100
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_group_is_let_in_and_nobody_else(path: Path) -> None:
    group = os.getegid()
    with bind_socket(path, group):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o710
        assert path.stat().st_gid == path.parent.stat().st_gid == group


@pytest.mark.parametrize(("mode", "told"), [(0o700, "chmod 710"), (0o711, "0711"), (0o730, "0730")])
def test_a_folder_that_the_group_cannot_enter_or_others_can_is_refused(
    path: Path, mode: int, told: str
) -> None:
    path.parent.mkdir()
    path.parent.chmod(mode)
    with pytest.raises(SocketRefused) as refused, bind_socket(path, os.getegid()):
        pass
    assert told in str(refused.value)


def test_data_sent_over_tcp_does_not_wait_for_earlier_data() -> None:
    """Else each answer, its head and its body, takes 40 ms more."""

    async def is_sent_at_once(listener: socket.socket) -> bool:
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            found.set_result(bool(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        async with await asyncio.start_server(connected, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.close()
            return await found

    with bind_address("127.0.0.1", 0, "Take another") as listener:
        assert asyncio.run(is_sent_at_once(listener))


def test_an_address_of_another_machine_is_refused_with_its_cause() -> None:
    with pytest.raises(SocketRefused, match=r"does not have the address\. Use an address of this"):
        bind_address("192.0.2.1", 0, "Choose another port")
