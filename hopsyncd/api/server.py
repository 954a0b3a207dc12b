"""Binds the Unix socket and the TCP address, and serves until a signal.

uvicorn would make the socket world-writable, replace any file at its path, and not remove it at the
end. So this module binds the socket and passes it to uvicorn.
"""

import asyncio
import ctypes
import errno
import fcntl
import logging
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

import structlog
import uvicorn
from starlette.types import ASGIApp

from hopsyncd.api.connection import (
    ACCEPTED_AT_ONCE,
    ClientConnection,
    Connections,
    Timeouts,
    compute_connection_limit,
    raise_descriptor_limit,
)
from hopsyncd.api.metrics import Load
from hopsyncd.api.supervisor import Supervisor, get_inherited_socket
from hopsyncd.api.tls import Handshakes, ServerTls, TlsStart, load_server_tls
from hopsyncd.api.tokens import warn_of_former_files
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import LimitsConfig, look_up_group_id, split_address
from hopsyncd.errors import AlreadyRunning, SocketRefused
from hopsyncd.index.throttle import shorten_switch_interval

log = structlog.get_logger(__name__)


_MAX_PATH_BYTES = 107  # sun_path on Linux has 108 bytes, with the final zero
_PROBE_TIMEOUT_S = 1.0

_STOP_REQUESTS_S = 3
_KEEP_ALIVE_S = 60  # long, because opening a TLS connection is expensive
_WAITING = 512  # connections that the kernel keeps until they are accepted
_M_ARENA_MAX = -8  # from malloc.h
_ENDING = (signal.SIGTERM, signal.SIGINT)


def share_heap() -> None:
    """Make all threads allocate from one heap, because glibc reuses freed memory only within a
    heap."""
    with suppress(AttributeError):  # other C libraries have no mallopt
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


@contextmanager
def bind_socket(path: Path, group: int | None = None) -> Iterator[socket.socket]:
    """Listen on a socket at `path`, and remove it at the end.

    The mode is 0600, in a folder of mode 0700. With a group, the mode is 0660, in a folder that the
    group may enter. Raises AlreadyRunning if a daemon serves at `path`, and SocketRefused if `path`
    is used for something else.
    """
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise SocketRefused(
            f"Cannot listen on {path}",
            f"the socket's path is longer than {_MAX_PATH_BYTES} bytes",
            "Set daemon.socket to a shorter path",
        )
    _prepare_folder(path.parent, group)
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
                f"Cannot listen on {path}",
                str(error.strerror).lower(),
                "Check the folder's permissions",
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


def _prepare_folder(folder: Path, group: int | None) -> None:
    """Create the folder, or check that only this user owns it and only the group may enter it."""
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if group is not None:
                os.chown(folder, -1, group)
                folder.chmod(0o710)
        status = folder.stat()
    except OSError as error:
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            str(error.strerror).lower(),
            "Set daemon.socket to a path in a folder that belongs to you",
        ) from error
    if status.st_uid != os.getuid():
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            f"the socket's folder belongs to user {status.st_uid}",
            "Set daemon.socket to a path in a folder that belongs to you",
        )
    mode = stat.S_IMODE(status.st_mode)
    if group is not None and not (status.st_gid == group and mode & 0o010):
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            "the group in access.group cannot enter the socket's folder",
            f"Run `chgrp {group} {folder} && chmod 710 {folder}`, or set daemon.socket to a path in"
            " a folder that does not exist yet",
        )
    if mode & (0o077 if group is None else 0o027):
        needed = "700" if group is None else "710"
        raise SocketRefused(
            f"Cannot use the socket's folder {folder}",
            f"other users can enter the socket's folder, whose mode is {mode:04o}",
            f"Run `chmod {needed} {folder}`, or set daemon.socket to a path in a separate folder",
        )


@contextmanager
def _signals_after() -> Iterator[None]:
    """Handle SIGTERM and SIGINT only after the block. Use this only in the main thread.

    Blocking the signals would not help: the kernel delivers them to another thread, and Python then
    calls the handler in the main thread anyway.
    """
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in _ENDING
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in received:
            signal.raise_signal(late)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file beside the socket; the kernel releases it if the process dies."""
    lock_path = path.with_name(path.name + ".lock")
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _already_running_error(path) from error
        yield


def _already_running_error(path: Path) -> AlreadyRunning:
    return AlreadyRunning(
        f"Cannot serve on {path}",
        "another hopsyncd daemon already listens on this socket",
        "Stop the other daemon, which `hopsyncd status` shows, or set HOPSYNCD_HOME to another"
        " folder",
    )


def _clear_stale(path: Path) -> None:
    """Remove a socket that no process listens on.

    Raises SocketRefused for any other file at the path.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise SocketRefused(
            f"Cannot listen on {path}",
            "there is a file at this path that is not a socket",
            "Move the file away, or set daemon.socket to another path",
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
                f"the check whether another program uses the socket failed ({error})",
                "Stop the program that uses the socket, or set daemon.socket to another path",
            ) from error
    raise _already_running_error(path)


def _remove_ours(path: Path, bound: os.stat_result) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if (status.st_dev, status.st_ino) == (bound.st_dev, bound.st_ino):
        path.unlink(missing_ok=True)


def bind_address(host: str, port: int, hint: str) -> socket.socket:
    """Bind a socket to an address without listening. Raises SocketRefused.

    For port 0, the system chooses a free port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        why = str(error.strerror).lower()
        if error.errno == errno.EADDRNOTAVAIL:
            why, hint = "this machine does not have the address", "Use an address of this machine"
        raise SocketRefused(f"Cannot listen on {host}, port {port}", why, hint) from error
    return listener


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listening sockets: `secured` with TLS, configured by `tls`, and `plain` without."""

    plain: Sequence[socket.socket]
    secured: Sequence[socket.socket] = ()
    tls: ServerTls | None = None


class _Server(uvicorn.Server):
    """A uvicorn server that cancels running work when it ends, and waits for the requests to
    finish."""

    def __init__(
        self,
        config: uvicorn.Config,
        end_work: Callable[[], None],
        supervisor: Supervisor,
        status: Callable[[], str],
        listeners: Listeners,
        within_s: float,
    ) -> None:
        super().__init__(config)
        self._listeners = listeners
        self._within_s = within_s
        self._end_work = end_work
        self._supervisor = supervisor
        self._status = status

    async def on_tick(self, counter: int) -> bool:
        self._supervisor.beat(self._status)
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        secured = self._listeners.secured
        if tls := self._listeners.tls:
            loop, handshakes = asyncio.get_running_loop(), Handshakes()
            connection: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
            make = partial(
                connection,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            start = partial(TlsStart, tls, handshakes, self._within_s, make)
            for listener in secured:
                backlog = self.config.backlog
                self.servers.append(await loop.create_server(start, sock=listener, backlog=backlog))
        for listener in [*(sockets or ()), *secured]:
            # asyncio's `backlog` also limits accepted connections, so set the queue here.
            listener.listen(_WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._supervisor.report_stopping()
        await asyncio.to_thread(self._end_work)
        await super().shutdown(sockets)


def end_at_signals(server: uvicorn.Server) -> None:
    """Install handlers with which SIGTERM and SIGINT make `server` exit.

    uvicorn has its own handlers only while it runs. When it returns, it restores these handlers and
    raises the received signals again. With the default handlers, an early or repeated signal would
    kill the process.
    """

    def end(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    for number in _ENDING:
        signal.signal(number, end)


def open_listeners(stack: ExitStack, config: Config) -> Listeners:
    """Open the configured sockets. The stack closes them."""
    listener = get_inherited_socket(config.daemon.socket)
    if listener is None:
        group = look_up_group_id(config.access.group) if config.access.group else None
        with _signals_after():
            listener = stack.enter_context(bind_socket(config.daemon.socket, group))
    listeners, secured = [listener], list[socket.socket]()
    warn_of_former_files(config)
    tls = load_server_tls(config)
    if config.access.listen and config.access.listen == config.web.listen:
        raise SocketRefused(
            f"Cannot listen on {config.web.listen}",
            "access.listen and web.listen are the same address",
            "Remove web.listen: access.page already opens the web interface at this address"
            if config.access.page
            else "Set web.listen to another port. Or remove web.listen, and set access.page to open"
            " the web interface at access.listen",
        )
    for key, address in (
        ("access.listen", config.access.listen),
        ("web.listen", config.web.listen),
    ):
        if address:
            hint = f"Set {key} to another port, or remove the setting"
            bound = stack.enter_context(bind_address(*split_address(address), hint))
            (secured if tls and key == "access.listen" else listeners).append(bound)
    return Listeners(listeners, secured, tls)


def serve(
    app: ASGIApp,
    listeners: Listeners,
    limits: LimitsConfig,
    load: Load,
    end_work: Callable[[], None],
    supervisor: Supervisor,
    status: Callable[[], str],
) -> None:
    """Serve until SIGTERM or SIGINT, then call `end_work` once, outside the event loop.

    `status` returns one line for the supervisor. Each request has the credentials of its process in
    its state.
    """
    shorten_switch_interval()
    server = _Server(
        _make_server_config(app, limits, load),
        end_work,
        supervisor,
        status,
        listeners,
        limits.header_s,
    )
    server.should_exit = supervisor.ended
    end_at_signals(server)
    server.run(sockets=[*listeners.plain])


def make_loopback_server(app: ASGIApp, limits: LimitsConfig) -> uvicorn.Server:
    """Create a second server beside the daemon's, with the same limits. Signals end it too."""
    server = uvicorn.Server(_make_server_config(app, limits, Load(), "auto"))
    end_at_signals(server)
    return server


def _make_server_config(
    app: ASGIApp, limits: LimitsConfig, load: Load, lifespan: Literal["auto", "off"] = "off"
) -> uvicorn.Config:
    # uvicorn logs a warning for each request that is not HTTP, which could flood the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    limit = compute_connection_limit(limits.connections, raise_descriptor_limit())
    if limit < limits.connections:
        log.warning(
            "fewer connections than limits.connections are accepted, because the limit of open"
            " files is too low. Raise the limit with `ulimit -n 4096`, or LimitNOFILE= in the unit",
            connections=limit,
        )
    connection = partial(
        ClientConnection,
        connections=Connections(limit, load),
        timeouts=Timeouts(limits.header_s, limits.body_s),
    )
    return uvicorn.Config(
        app,
        http=connection,  # type: ignore[arg-type]  # callable like the class
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # api/proxy.py reads them, only from trusted proxies
        timeout_keep_alive=_KEEP_ALIVE_S,
        backlog=ACCEPTED_AT_ONCE,
        server_header=False,
        timeout_graceful_shutdown=_STOP_REQUESTS_S,
    )
