"""Binds the Unix socket and the TCP address, and serves until a signal.

uvicorn would make the socket world-writable, replace whatever is at its path, and leave it there
at the end. So we bind it ourselves and hand it over.

The daemon tells a supervisor such as systemd its state: sd_notify(3) is a datagram of lines to the
socket in NOTIFY_SOCKET, and sd_listen_fds(3) an open socket as descriptor 3. Without a supervisor
neither has an effect.
"""

import asyncio
import ctypes
import fcntl
import logging
import os
import signal
import socket
import stat
import sys
import termios
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Literal, NoReturn

import structlog
import uvicorn
from starlette.types import ASGIApp

from hopsyncd.api.connection import (
    ACCEPTED_AT_ONCE,
    ClientConnection,
    Connections,
    Timeouts,
    connections_within,
    raise_descriptor_limit,
)
from hopsyncd.api.metrics import Load
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import LimitsConfig, group_id, host_and_port
from hopsyncd.errors import REPORTABLE, AlreadyRunning, SocketRefused
from hopsyncd.index.throttle import shorten_switch_interval

log = structlog.get_logger(__name__)


_FIRST_FD = 3
_STATUS_EVERY_S = 5.0


class Supervisor:
    """The supervisor that set NOTIFY_SOCKET, if any.

    A `status` returns one line for people. The variables are removed from the environment, so that
    no child process reports in our name.
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
        """Report that the daemon is alive. The event loop calls this several times a second.

        A supervisor that waits too long for it restarts the daemon.
        """
        now_s = time.monotonic()
        if not self._address or (self._beat_s and now_s - self._beat_s < self._every_s):
            return
        lines = [] if self._beat_s else ["READY=1"]
        lines += ["WATCHDOG=1"] if self._watched else []
        self._tell(*lines, f"STATUS={status()}")
        self._beat_s = now_s

    def reloading(self) -> None:
        """Report that the configuration is being read, until `report_ready`."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def report_ready(self, status: Callable[[], str]) -> None:
        self._tell("READY=1", f"STATUS={status()}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def end(self, *_: object) -> NoReturn:
        """End the process by an exception, as a handler of signals before there is a server.

        `ended` outlives the exception: Python drops one that is raised in a finalizer.
        """
        self.ended = True
        sys.exit(0)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # Serving goes on without a supervisor that listens.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), self._address)


def inherited_socket(
    path: Path, environment: MutableMapping[str, str] = os.environ
) -> socket.socket | None:
    """The listening socket that a supervisor opened for this process; None without one.

    Raises SocketRefused if it is not at `path`, or if everyone may connect to it.
    """
    pid, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    environment.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or count in ("", "0"):
        return None
    what = "Cannot serve on the socket that was passed in"
    if count != "1":
        raise SocketRefused(what, f"there are {count} of them", "Pass one")
    listener = socket.socket(fileno=_FIRST_FD)
    listener.set_inheritable(False)
    if listener.family != socket.AF_UNIX or listener.getsockname() != str(path):
        raise SocketRefused(
            what,
            f"it is {listener.getsockname()!r}, but the configuration names {path}",
            "Make daemon.socket and the unit's ListenStream equal",
        )
    if stat.S_IMODE(path.stat().st_mode) & 0o007:
        raise SocketRefused(what, "everyone may connect to it", "Set SocketMode=0600 in its unit")
    return listener


def reload_at_hang_ups(
    hang_ups: "SimpleQueue[None]",
    reload: Callable[[], object],
    supervisor: Supervisor,
    status: Callable[[], str],
    *,
    at_terminal: bool,
) -> None:
    """Reload at each SIGHUP in the queue, for as long as the process lives.

    If the daemon was started `at_terminal` and that is gone, SIGHUP means the hang-up: end it.
    """
    while True:
        hang_ups.get()
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
        supervisor.report_ready(status)


def is_terminal() -> bool:
    try:
        termios.tcgetattr(0)
    except (termios.error, OSError):
        return False
    return True


_MAX_PATH_BYTES = 107  # sun_path on Linux holds 108 with its closing zero
_PROBE_TIMEOUT_S = 1.0

_STOP_REQUESTS_S = 3
_WAITING = 512  # connections that the kernel keeps until they are accepted
_M_ARENA_MAX = -8  # of malloc.h
_ENDING = (signal.SIGTERM, signal.SIGINT)


def share_heap() -> None:
    """Let all threads allocate from one heap: what one of them frees, glibc keeps for it alone."""
    with suppress(AttributeError):  # other C libraries have nothing of the kind
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


@contextmanager
def bound_socket(path: Path, group: int | None = None) -> Iterator[socket.socket]:
    """A listening socket at `path`, mode 0600 in our own 0700 folder; removed at the end.

    With a group the mode is 0660, in a folder that the group may enter.
    Raises AlreadyRunning if a living daemon serves there, SocketRefused if something else does.
    """
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise SocketRefused(
            f"Cannot listen on {path}",
            f"the path is longer than {_MAX_PATH_BYTES} bytes",
            "Set daemon.socket to a shorter path",
        )
    _own_folder(path.parent, group)
    with _lock(path):
        _clear_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
            if group is not None:
                os.chown(path, -1, group)
                path.chmod(0o660)
        except OSError as error:
            listener.close()
            raise SocketRefused(
                f"Cannot listen on {path}", str(error.strerror).lower(), "Check the folder's rights"
            ) from error
        finally:
            os.umask(before)
        bound = path.stat()
        try:
            listener.listen(128)
            yield listener
        finally:
            listener.close()
            _remove_ours(path, bound)


def _own_folder(folder: Path, group: int | None) -> None:
    """Make the folder, or check that we own it and only we and the group may enter it."""
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if group is not None:
                os.chown(folder, -1, group)
                folder.chmod(0o710)
        found = folder.stat()
    except OSError as error:
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            str(error.strerror).lower(),
            "Set daemon.socket to a path in a folder of yours",
        ) from error
    if found.st_uid != os.getuid():
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            f"it belongs to user {found.st_uid}",
            "Set daemon.socket to a path in a folder of yours",
        )
    mode = stat.S_IMODE(found.st_mode)
    if group is not None and not (found.st_gid == group and mode & 0o010):
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            "the group in access.group cannot enter it",
            f"Run `chgrp {group} {folder} && chmod 710 {folder}`, or set daemon.socket to a path in"
            " a folder that does not exist yet",
        )
    if mode & (0o077 if group is None else 0o027):
        wanted = "700" if group is None else "710"
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            f"its mode is {mode:04o}, so others can enter it",
            f"Run `chmod {wanted} {folder}`, or set daemon.socket to a path in a folder of its own",
        )


@contextmanager
def _signals_after() -> Iterator[None]:
    """Handle SIGTERM and SIGINT only after the block. For the main thread.

    Blocking them would not do: the kernel hands them to a library's thread, and Python then calls
    the handler in the main thread nevertheless.
    """
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file beside the socket; the kernel frees it if we die."""
    lock_path = path.with_name(path.name + ".lock")
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _already_running(path) from error
        yield


def _already_running(path: Path) -> AlreadyRunning:
    return AlreadyRunning(
        f"Cannot serve on {path}",
        "another hopsyncd serves there",
        "`hopsyncd status` shows its state; stop it first, or set another HOPSYNCD_HOME",
    )


def _clear_stale(path: Path) -> None:
    """Remove a socket that nobody listens on; refuse anything else at the path."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketRefused(
            f"Cannot listen on {path}",
            "something that is not a socket is there",
            "Move it away, or set daemon.socket to another path",
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise SocketRefused(
                f"Cannot listen on {path}",
                f"cannot find out whether another program uses that socket ({error})",
                "Stop the program that uses it, or set daemon.socket to another path",
            ) from error
    raise _already_running(path)


def _remove_ours(path: Path, bound: os.stat_result) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if (found.st_dev, found.st_ino) == (bound.st_dev, bound.st_ino):
        path.unlink(missing_ok=True)


def bound_address(host: str, port: int, hint: str) -> socket.socket:
    """A socket bound to an address, not yet listening; port 0: a free one. Raises SocketRefused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SocketRefused(
            f"Cannot listen on {host}, port {port}", str(error.strerror).lower(), hint
        ) from error
    return listener


class _Server(uvicorn.Server):
    """Ends the work in hand before uvicorn waits for the requests that depend on it."""

    def __init__(
        self,
        config: uvicorn.Config,
        end_work: Callable[[], None],
        supervisor: Supervisor,
        status: Callable[[], str],
    ) -> None:
        super().__init__(config)
        self._end_work = end_work
        self._supervisor = supervisor
        self._status = status

    async def on_tick(self, counter: int) -> bool:
        self._supervisor.beat(self._status)
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # asyncio accepts as many at once as can wait, and more may wait than it should accept.
            listener.listen(_WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._supervisor.stopping()
        await asyncio.to_thread(self._end_work)
        await super().shutdown(sockets)


def end_at_signals(server: uvicorn.Server) -> None:
    """Let SIGTERM and SIGINT end a server: before uvicorn handles them, and when it raises them
    again at its end."""

    def end(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    for number in _ENDING:
        signal.signal(number, end)


def bound_listeners(stack: ExitStack, config: Config) -> list[socket.socket]:
    """The configured sockets, until the stack unwinds."""
    listener = inherited_socket(config.daemon.socket)
    if listener is None:
        group = group_id(config.access.group) if config.access.group else None
        with _signals_after():
            listener = stack.enter_context(bound_socket(config.daemon.socket, group))
    listeners = [listener]
    for key, address in (("access.tcp", config.access.tcp), ("web.listen", config.web.listen)):
        if address:
            hint = f"Set {key} to another port, or remove it"
            listeners.append(stack.enter_context(bound_address(*host_and_port(address), hint)))
    return listeners


def serve(
    app: ASGIApp,
    listeners: Sequence[socket.socket],
    limits: LimitsConfig,
    load: Load,
    end_work: Callable[[], None],
    supervisor: Supervisor,
    status: Callable[[], str],
) -> None:
    """Serve until SIGTERM or SIGINT, then call `end_work` once, off the event loop.

    `status` returns one line for the supervisor.

    Each request has the credentials of its process in its state.
    """
    shorten_switch_interval()
    server = _Server(_limit_server(app, limits, load), end_work, supervisor, status)
    server.should_exit = supervisor.ended
    end_at_signals(server)
    server.run(sockets=list(listeners))


def loopback_server(app: ASGIApp, limits: LimitsConfig) -> uvicorn.Server:
    """A server of its own beside the daemon, within the same limits, that signals end from now."""
    server = uvicorn.Server(_limit_server(app, limits, Load(), "auto"))
    end_at_signals(server)
    return server


def _limit_server(
    app: ASGIApp, limits: LimitsConfig, load: Load, lifespan: Literal["auto", "off"] = "off"
) -> uvicorn.Config:
    # uvicorn warns of every request that is not HTTP: a flood of those would flood the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    most = connections_within(limits.connections, raise_descriptor_limit())
    if most < limits.connections:
        log.warning(
            "fewer connections than limits.connections are accepted: too few files can be open;"
            " `ulimit -n 4096`, or LimitNOFILE= in the unit, raises that",
            connections=most,
        )
    connection = partial(
        ClientConnection,
        connections=Connections(most, load),
        timeouts=Timeouts(limits.header_s, limits.body_s),
    )
    return uvicorn.Config(
        app,
        http=connection,  # type: ignore[arg-type]  # callable like the class
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        backlog=ACCEPTED_AT_ONCE,
        server_header=False,
        timeout_graceful_shutdown=_STOP_REQUESTS_S,
    )
