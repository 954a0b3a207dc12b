"""Detects within 15 s that a server, or the network to it, no longer answers.

TCP alone does not detect a lost server: a relay can acknowledge every packet and forward none. So
both sides wait for answers, not for packets.

- The writer uses its session at least every `_BEAT_S`. The server ends the session if it is idle
  for `LEASE_S`, which releases the writer's lock; see `session`.
- In each process, a watchdog thread checks the sessions that wait for an answer. If a session has
  waited for longer than `_PATIENCE_S`, the thread opens another connection, at most twice, and asks
  whether the server still has the session. If it does, the statement is only slow. Otherwise the
  thread shuts down the session's socket, and the statement fails.
"""

import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

LEASE_S = 12
_BEAT_S = 3.0
_PATIENCE_S = 5.0
_ROUND_S = 1.0
_CONNECT_S = 3  # the limit for connecting, and again for the query.
_ATTEMPTS = 2  # A server under load may fail to accept the first connection in time.


class Line:
    """Watches the connection of one session. `lock` is reentrant, and is held while the connection
    is in use.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = threading.RLock()
        self.process = 0  # the id of the server process that runs this session
        self.used_s = time.monotonic()
        self._since_s: float | None = None
        self._ended = threading.Event()
        # A copy of libpq's descriptor, because libpq may close its own at any time.
        self._socket: socket.socket | None = None
        self._socket_lock = threading.Lock()

    @property
    def waiting_since_s(self) -> float | None:
        """The time (monotonic) when the current wait for the server began, or None if no thread
        waits.
        """
        return self._since_s

    def connect(self, connection: "psycopg.Connection[Any]") -> None:
        """Start watching this connection."""
        with self._socket_lock:
            self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self.process = connection.info.backend_pid
        _watchdog.watch(self)

    def disconnect(self) -> None:
        """Stop watching the connection, which has been closed."""
        with self._socket_lock:
            if self._socket:
                self._socket.close()
            self._socket = None

    def end(self) -> None:
        """Stop the heartbeat; the connection stays open."""
        self._ended.set()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the block exclusive use of the connection."""
        with self.lock:
            outer, self._since_s = self._since_s, time.monotonic()
            try:
                yield
            finally:
                self._since_s = outer
                self.used_s = time.monotonic()

    def cut(self) -> None:
        """Shut down the socket. A thread that waits for the server then gets an error."""
        with self._socket_lock, suppress(OSError):
            if self._socket:
                self._socket.shutdown(socket.SHUT_RDWR)

    def beat(self, connection: "psycopg.Connection[Any]") -> None:
        """Start the heartbeat, which uses the connection every few seconds to keep the session
        alive."""
        threading.Thread(
            target=_beat,
            args=(weakref.ref(self), weakref.ref(connection), self._ended),
            name="database heartbeat",
            daemon=True,
        ).start()


def _beat(
    line: "weakref.ref[Line]",
    connection: "weakref.ref[psycopg.Connection[Any]]",
    ended: threading.Event,
) -> None:
    while not ended.wait(_BEAT_S):
        if not _beat_once(line(), connection()):
            return


def _beat_once(line: Line | None, connection: "psycopg.Connection[Any] | None") -> bool:
    """Send a statement unless the connection was used recently. Returns False if the connection is
    closed."""
    if line is None or connection is None or connection.closed:
        return False
    if time.monotonic() - line.used_s < _BEAT_S / 2:
        return True
    # In a failed transaction the server rejects the statement. That is an answer too.
    with suppress(psycopg.Error), line.in_use():
        connection.execute("SELECT 1")
    return not connection.closed


class _Watchdog:
    """Shuts down connections to servers that do not answer. Each process has one watchdog
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._process = 0
        self._asked_s: dict[str, float] = {}  # by URL: when the server was last asked (monotonic)

    def watch(self, line: Line) -> None:
        with self._lock:
            self._lines.add(line)
            if self._process != os.getpid():  # A forked process does not inherit the thread.
                self._process = os.getpid()
                threading.Thread(target=self._run, name="database watchdog", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_ROUND_S)
            self._check_lines()

    def _check_lines(self) -> None:
        with self._lock:
            lines = list(self._lines)
        now_s = time.monotonic()
        overdue: dict[str, list[tuple[Line, float]]] = {}
        for line in lines:
            since_s = line.waiting_since_s
            if since_s is not None and now_s - since_s > _PATIENCE_S:
                overdue.setdefault(line.url, []).append((line, since_s))
        for url, waiting in overdue.items():
            if now_s - self._asked_s.get(url, -_PATIENCE_S) < _PATIENCE_S / 2:
                continue
            self._asked_s[url] = now_s
            processes = [line.process for line, _ in waiting]
            answers = (_list_sessions(url, processes) for _ in range(_ATTEMPTS))
            live_processes = next((answer for answer in answers if answer is not None), set[int]())
            for line, since_s in waiting:
                if line.process not in live_processes and line.waiting_since_s == since_s:
                    line.cut()


_watchdog = _Watchdog()


def _list_sessions(url: str, processes: list[int]) -> set[int] | None:
    """Return the sessions (process ids of the server) that still exist on the server. Returns None
    if the server does not answer in time."""
    is_late = threading.Event()
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_S) as other:
            wire = socket.socket(fileno=os.dup(other.fileno()))

            def give_up() -> None:
                is_late.set()
                wire.shutdown(socket.SHUT_RDWR)

            timer = threading.Timer(_CONNECT_S, give_up)
            timer.start()
            try:
                rows = other.execute(
                    "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [processes]
                ).fetchall()
            finally:
                timer.cancel()
                timer.join()
                wire.close()
            return {int(row[0]) for row in rows}
    except errors.ConnectionTimeout:
        return None
    except psycopg.Error:
        # The server answered, but refused the connection. So its sessions are still alive.
        return None if is_late.is_set() else set(processes)
