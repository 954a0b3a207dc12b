"""Requests that another user of this machine sends: a forked process gives up its rights first."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

# A method, a path, and a body or none.
Asked = tuple[str, str, dict[str, Any] | None]


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("hopsyncd", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket(AF_UNIX, SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


def answers(path: Path, asked: Sequence[Asked]) -> list[tuple[int, str]]:
    """Status and text of each answer, over one socket path."""
    got = []
    for method, target, body in asked:
        connection = _UnixConnection(path)
        connection.request(method, target, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        got.append((response.status, response.read().decode()))
        connection.close()
    return got


def as_user(uid: int, groups: Sequence[int], act: Callable[[], Any]) -> Any:
    """What `act` gives, as JSON, in a process of that user; the name of the error if it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.setgroups(list(groups))
            os.setgid(uid)
            os.setuid(uid)
            told = act()
        except BaseException as error:  # noqa: BLE001 - the parent judges
            told = type(error).__name__
        with os.fdopen(writing, "w") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = json.load(pipe)
    os.waitpid(child, 0)
    return told


@contextmanager
def serving_as(uid: int, path: Path, reply: bytes, mode: int = 0o666) -> Iterator[Path]:
    """A server of another user at a socket path; the file that is given has all that it was told.

    It makes the socket's folder, if that is not there, and is ended at the end.
    """
    heard = path.parent / "heard"
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            _listen(path, reply, mode, heard, done)
        finally:
            os._exit(1)
    os.close(done)
    try:
        assert os.read(ready, 1) == b"1", "it could not listen"
        yield heard
    finally:
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _listen(path: Path, reply: bytes, mode: int, heard: Path, ready: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o755)
    with heard.open("ab", buffering=0) as file, socket(AF_UNIX, SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen()
        os.write(ready, b"1")
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5)
                if told := connection.recv(1 << 16):
                    file.write(told)
                    connection.sendall(reply)
