"""Reports to a supervisor such as systemd, accepts a socket from it, and reloads at SIGHUP.

sd_notify(3) sends a datagram of lines to the socket in NOTIFY_SOCKET. sd_listen_fds(3) passes an
open socket as descriptor 3. Without a supervisor, neither has an effect.
"""

import os
import signal
import socket
import stat
import sys
import termios
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import structlog

from hopsyncd.errors import REPORTABLE, SocketRefused
from hopsyncd.logs import reopen_log_files

log = structlog.get_logger(__name__)

_FIRST_FD = 3
_STATUS_EVERY_S = 5.0


class Supervisor:
    """Reports to the supervisor that set NOTIFY_SOCKET. Without a supervisor, it does nothing.

    The parameter `status` of its methods returns one line for people. The supervisor's variables
    are removed from the environment, because child processes must not report in the daemon's name.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        watched_us = environment.pop("WATCHDOG_USEC", "")
        watched_pid = environment.pop("WATCHDOG_PID", str(os.getpid()))
        # "@" stands for the zero byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watched = watched_us.isdecimal() and watched_pid == str(os.getpid())
        self._every_s = _STATUS_EVERY_S
        if self._watched:
            self._every_s = min(_STATUS_EVERY_S, int(watched_us) / 4e6)
        self._beat_s: float | None = None
        self.ended = False

    def beat(self, status: Callable[[], str]) -> None:
        """Report that the daemon is alive. The event loop must call this several times a second.

        If the supervisor gets no report for too long, it restarts the daemon.
        """
        now_s = time.monotonic()
        if not self._address or (self._beat_s and now_s - self._beat_s < self._every_s):
            return
        lines = [] if self._beat_s else ["READY=1"]
        lines += ["WATCHDOG=1"] if self._watched else []
        self._tell(*lines, f"STATUS={status()}")
        self._beat_s = now_s

    def report_reloading(self) -> None:
        """Report that the configuration is being reloaded. `report_ready` ends this state."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def report_ready(self, status: Callable[[], str]) -> None:
        self._tell("READY=1", f"STATUS={status()}")

    def report_stopping(self) -> None:
        self._tell("STOPPING=1")

    def end(self, *_: object) -> NoReturn:
        """End the process by an exception. This is the signal handler until the server runs.

        `ended` stays set, because Python drops an exception that is raised in a finalizer.
        """
        self.ended = True
        sys.exit(0)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # If the supervisor does not listen, the daemon continues.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), self._address)


def get_inherited_socket(
    path: Path, environment: MutableMapping[str, str] = os.environ
) -> socket.socket | None:
    """Return the listening socket that a supervisor opened for this process, or None.

    Raises SocketRefused if the socket is not at `path`, or if every user may connect to it.
    """
    pid, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    environment.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or count in ("", "0"):
        return None
    what = "Cannot serve on the socket from the supervisor"
    if count != "1":
        raise SocketRefused(
            what, f"{count} sockets were passed", "Set one ListenStream in the socket unit"
        )
    listener = socket.socket(fileno=_FIRST_FD)
    listener.set_inheritable(False)
    if listener.family != socket.AF_UNIX or listener.getsockname() != str(path):
        raise SocketRefused(
            what,
            f"the socket is {listener.getsockname()!r}, but the configuration names {path}",
            "Set daemon.socket and the unit's ListenStream to the same path",
        )
    if stat.S_IMODE(path.stat().st_mode) & 0o007:
        raise SocketRefused(
            what, "every user may connect to the socket", "Set SocketMode=0600 in its unit"
        )
    return listener


def reload_at_hang_ups(
    hang_ups: "SimpleQueue[None]",
    reload: Callable[[], object],
    supervisor: Supervisor,
    status: Callable[[], str],
    *,
    at_terminal: bool,
) -> None:
    """Reload, and reopen the log file, at each SIGHUP in the queue, until the process ends.

    If the daemon was started `at_terminal` and the terminal is gone, SIGHUP means that the terminal
    was closed, so the daemon ends.
    """
    while True:
        hang_ups.get()
        if at_terminal and not is_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
            return
        reopen_log_files()
        supervisor.report_reloading()
        try:
            reload()
        except REPORTABLE:
            pass  # the failure is logged and in the status
        except Exception:
            log.exception("the reload failed")
        supervisor.report_ready(status)


def is_terminal() -> bool:
    try:
        termios.tcgetattr(0)
    except (termios.error, OSError):
        return False
    return True
