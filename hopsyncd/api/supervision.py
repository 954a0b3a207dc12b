"""What systemd, or another supervisor that speaks its protocol, passes in and is told.

The protocol of sd_notify(3) is a datagram of lines to the socket that NOTIFY_SOCKET names, and that
of sd_listen_fds(3) an open socket as descriptor 3. Without a supervisor nothing here does anything.
"""

import os
import signal
import socket
import stat
import termios
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import structlog

from hopsyncd.errors import REPORTABLE, SocketRefused

log = structlog.get_logger(__name__)

_FIRST_FD = 3
_STATUS_EVERY_S = 5.0


class Supervisor:
    """Whoever set NOTIFY_SOCKET.

    `status` is one line for people. The variables are taken out of the environment, so that no
    child speaks in our name.
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
        self.status: Callable[[], str] = lambda: "starting"

    def beat(self) -> None:
        """Call from the event loop, several times a second: it serves, and it is alive.

        Whoever does not hear of it in time restarts the daemon.
        """
        now_s = time.monotonic()
        if not self._address or (self._beat_s and now_s - self._beat_s < self._every_s):
            return
        lines = [] if self._beat_s else ["READY=1"]
        lines += ["WATCHDOG=1"] if self._watched else []
        self._tell(*lines, f"STATUS={self.status()}")
        self._beat_s = now_s

    def reloading(self) -> None:
        """The configuration is being read again, until `reloaded`."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        self._tell("READY=1", f"STATUS={self.status()}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # A supervisor that is gone or deaf is no reason to stop serving.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), self._address)


def inherited_socket(
    path: Path, environment: MutableMapping[str, str] = os.environ
) -> socket.socket | None:
    """The listening socket that a supervisor opened at `path` for this process, None if none did.

    Raises SocketRefused for one that is not what the configuration names, or open to everyone.
    """
    pid, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    environment.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or count in ("", "0"):
        return None
    what = "Cannot serve on the socket that was passed in"
    if count != "1":
        raise SocketRefused(what, f"there are {count}", "Pass one")
    listener = socket.socket(fileno=_FIRST_FD)
    listener.set_inheritable(False)
    if listener.family != socket.AF_UNIX or listener.getsockname() != str(path):
        raise SocketRefused(
            what,
            f"it is {listener.getsockname()!r}, and the configuration names {path}",
            "Make daemon.socket and the unit's ListenStream equal",
        )
    if stat.S_IMODE(path.stat().st_mode) & 0o007:
        raise SocketRefused(what, "everyone may connect to it", "Write SocketMode=0600 in its unit")
    return listener


def answer_hang_ups(
    told: "SimpleQueue[None]",
    reload: Callable[[], object],
    supervisor: Supervisor,
    *,
    at_terminal: bool,
) -> None:
    """Reload at each SIGHUP that `told` has, for as long as the process lives.

    Unless the daemon was started `at_terminal`, and that is gone: then this is what SIGHUP says.
    """
    while True:
        told.get()
        if at_terminal and not is_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
            return
        supervisor.reloading()
        try:
            reload()
        except REPORTABLE:
            pass  # logged, and in the status
        except Exception:
            log.exception("the reload failed")
        supervisor.reloaded()


def is_terminal() -> bool:
    """Whether standard input is a terminal that nobody has closed."""
    try:
        termios.tcgetattr(0)
    except (termios.error, OSError):
        return False
    return True
