"""Starts and ends child processes, and restarts them after a failure."""

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    """Start a program in the root folder, with only this environment. Raises OSError.

    It has its own session, so that Ctrl-C reaches only the daemon, and a kill also ends the
    program's children.
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
    """Kill a child and its own children, wait for it, and close its pipes."""
    if process.returncode is None:  # not waited for yet, so its pid is not reused
        with suppress(ProcessLookupError, PermissionError):  # macOS, if it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError):  # unsent data is lost
        process.communicate()


class StartRefused(Exception):
    """The child is not started now, because the last starts failed.

    why: the reason of the last failure.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Restarts:
    """Delays further starts after failures.

    After `most` failures in a row, no start is tried for `rest` times the duration of the last
    start, at most `longest_s`. By default, no start is ever tried again. Only errors of the types
    `failures` count.
    """

    def __init__(
        self,
        most: int,
        failures: tuple[type[Exception], ...],
        rest: float = math.inf,
        longest_s: float = math.inf,
    ) -> None:
        self._most = most
        self._failures = failures
        self._rest = rest
        self._longest_s = longest_s
        self._failed = 0
        self._why = ""
        self._until_s = 0.0

    @property
    def are_given_up(self) -> bool:
        return self._until_s == math.inf

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Count the `with` block as a start. Raises StartRefused if no start may be tried now."""
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
    """Manages a child that starts when it is needed and restarts after it ends.

    `start` starts it, and `expect_ready` waits until it is ready; both may raise.
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
        """Whether a child was started. It may have ended unnoticed."""
        return self._process is not None

    def get(self) -> Process:
        """Return the running child, and start it if necessary.

        Raises StartRefused or the start's error.
        """
        if self._process is None:
            with self._restarts.attempt():
                self._process = start_ready(self._start, self._expect_ready)
        return self._process

    def end(self) -> None:
        """End the child, even during its work. The next `get` starts another child."""
        process, self._process = self._process, None
        if process:
            end_child(process)


class IdleTimer:
    """Calls `expire` on a separate thread, `idle_s` seconds after the last restart.

    `expire` must check `has_expired` again under the owner's lock, because the timer may have been
    restarted meanwhile.
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
        """Start the waiting time from the beginning."""
        with self._changed:
            self._due_s = time.monotonic() + self._idle_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="idle", daemon=True)
                self._thread.start()

    def cancel(self) -> None:
        """Stop waiting until the next restart."""
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
    """Start a child. If it does not become ready, end it and raise the error."""
    process = start()
    try:
        expect_ready(process)
    except BaseException:
        end_child(process)
        raise
    return process
