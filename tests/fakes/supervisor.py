"""A supervisor's end of sd_notify: a datagram socket that collects what it is told."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FakeSupervisor:
    """`heard` has each line with the time of its arrival."""

    def __init__(self, listener: socket.socket) -> None:
        self.heard: list[tuple[float, str]] = []
        self._listener = listener
        threading.Thread(target=self._listen, daemon=True).start()

    def has(self, start: str) -> bool:
        """Whether a line begins so."""
        return any(line.startswith(start) for _, line in self.heard)

    def count(self, line: str) -> int:
        return sum(heard == line for _, heard in self.heard)

    def last(self, start: str) -> str:
        return next(line for _, line in reversed(self.heard) if line.startswith(start))

    def _listen(self) -> None:
        while True:
            try:
                received = self._listener.recv(4096)
            except OSError:
                return
            now_s = time.monotonic()
            self.heard += [(now_s, line) for line in received.decode().splitlines()]


@contextmanager
def listening_at(path: Path) -> Iterator[FakeSupervisor]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        yield FakeSupervisor(listener)
