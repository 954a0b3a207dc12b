"""Starts and ends child processes, and restarts them after a failure."""

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

Process = subprocess.Popen[bytes]


def start_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int | IO[bytes] = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start a program with only this environment, and with `/` as its working folder. Raises
    OSError.

    The program runs in a session of its own. So Ctrl-C reaches only the daemon, and `end_child`
    also kills the program's children.
    """
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        pass_fds=pass_fds,
        start_new_session=True,
    )


def end_child(process: Process) -> None:
    """Kill a child process with its own children, wait for the child to end, and close its
    pipes."""
    if process.returncode is None:  # not waited for yet, so its pid is not reused
        with suppress(ProcessLookupError, PermissionError):  # macOS, if it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError):  # unsent data is lost
        process.communicate()


class StartRefused(Exception):
    """A child process is not started now, because the last starts failed.

    `why` is the reason for the last failure.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(eq=False, repr=False)
class Restarts:
    """Delays further starts after failures.

    After `most` failures in a row, starts are refused for `rest` times the duration of the last
    start, but at most for `longest_s` seconds. By default, they are refused forever. Only errors of
    the types `failures` count as failures.
    """

    _most: int
    _failures: tuple[type[Exception], ...]
    _rest: float = math.inf
    _longest_s: float = math.inf
    _failed: int = 0
    _why: str = ""
    _until_s: float = 0.0

    @property
    def are_given_up(self) -> bool:
        return self._until_s == math.inf

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Count the `with` block as an attempt to start. Raises StartRefused if starts are refused
        at present."""
        began_s = time.monotonic()
        if began_s < self._until_s:
            raise StartRefused(self._why)
        try:
            yield
        except self._failures as error:
            self._failed += 1
            if self._failed >= self._most:
                now_s = time.monotonic()
                self._why = str(getattr(error, "why", error))
                took_s = max(now_s - began_s, 0.001)
                self._until_s = now_s + min(self._rest * took_s, self._longest_s)
            raise
        self._failed = 0


class ChildProcess:
    """Manages a child process that is started when it is needed. After `end`, it is started again
    when it is needed.

    `start` starts the child, and `expect_ready` waits until the child is ready. Both may raise
    errors.
    """

    def __init__(
        self,
        start: Callable[[], Process],
        expect_ready: Callable[[Process], None] = lambda _: None,
        restarts: Restarts | None = None,
    ) -> None:
        self._start = start
        self._expect_ready = expect_ready
        self._restarts = restarts or Restarts(1, ())
        self._process: Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether a child was started and `end` was not called since. The child may have ended by
        itself."""
        return self._process is not None

    def get(self) -> Process:
        """Return the child. Start it if `is_running` is false.

        Raises StartRefused, or the error of `start` or `expect_ready`.
        """
        if self._process is None:
            with self._restarts.attempt():
                self._process = start_ready(self._start, self._expect_ready)
        return self._process

    def end(self) -> None:
        """Kill the child, even if it is working. The next `get` starts another child."""
        process, self._process = self._process, None
        if process:
            end_child(process)


class IdleTimer:
    """Calls `expire` on a separate thread, `idle_s` seconds after the last call of `restart`.

    `expire` must hold the lock under which `restart` is called, and check `has_expired`, because
    the timer may have been restarted meanwhile.
    """

    def __init__(self, idle_s: float, expire: Callable[[], None]) -> None:
        self._idle_s = idle_s
        self._expire = expire
        self._changed = threading.Condition()
        self._due_s = math.inf
        self._thread: threading.Thread | None = None

    @property
    def has_expired(self) -> bool:
        return time.monotonic() >= self._due_s

    def restart(self) -> None:
        """Set the timer to expire `idle_s` seconds from now."""
        with self._changed:
            self._due_s = time.monotonic() + self._idle_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="idle", daemon=True)
                self._thread.start()

    def cancel(self) -> None:
        """Stop the timer until the next call of `restart`."""
        with self._changed:
            self._due_s = math.inf
            self._changed.notify_all()

    def _wait(self) -> None:
        with self._changed:
            while not self.has_expired and self._due_s < math.inf:
                self._changed.wait(self._due_s - time.monotonic())
            self._thread = None
        if self.has_expired:
            self._expire()


def start_ready(start: Callable[[], Process], expect_ready: Callable[[Process], None]) -> Process:
    """Start a child process and return it. If `expect_ready` raises an error, end the child and
    raise the error."""
    process = start()
    try:
        expect_ready(process)
    except BaseException:
        end_child(process)
        raise
    return process
