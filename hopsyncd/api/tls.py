"""Loads the TLS certificate of the TCP listener, and performs the handshakes of connections.

OpenSSL does the cryptography. When the certificate's files change, new connections use the new
certificate. Open connections keep their certificate.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
import stat
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.config.configuration import Config
from hopsyncd.errors import SocketRefused

log = structlog.get_logger(__name__)

MAX_HANDSHAKES = 128
"""The limit of unfinished TLS handshakes. Beyond it, the address with the most handshakes loses its
oldest handshake."""

_LOOK_EVERY_S = 1.0
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL; Python has no name for it
_ROUNDS = 4  # the most rounds of a handshake
_HINT = "Check access.tls_cert and access.tls_key"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate in use. Its names are in lower case, and expires_s is Unix time."""

    names: frozenset[str]
    expires_s: float

    def is_for(self, host: str) -> bool:
        """Return whether the certificate has this host name, or a wildcard that covers the name."""
        bare = host.strip("[]")
        return bool({bare, "*." + bare.partition(".")[2]} & self.names)


def load_certificate(cert: Path, key: Path) -> tuple[ssl.SSLContext, Certificate]:
    """Load the context of a TLS server and its certificate.

    Raises SocketRefused if the files cannot be used, or if other users can read the key.
    """
    what = f"Cannot use the certificate {cert}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for file in (cert, key):
        try:
            file.read_bytes()
        except OSError as error:
            why = str(error.strerror).lower()
            raise SocketRefused(f"Cannot read {file}", why, _HINT) from error
    status = key.stat()
    if status.st_uid not in (0, os.geteuid()):
        why, hint = "another user owns the key file", f"As root, run `chown {os.geteuid()} {key}`"
        raise SocketRefused(f"Cannot use the key {key}", why, hint)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise SocketRefused(
            f"Cannot use the key {key}",
            "other users can read the key file",
            f"Run `chmod 600 {key}`",
        )
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
        return context, _read_certificate(context, cert)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"the key {key} belongs to another certificate"
        elif "PEM" in str(error):
            why = f"the certificate or the key {key} is not in PEM format"
        else:
            why = str(error.reason or error).lower().replace("_", " ")
        raise SocketRefused(what, why, _HINT) from error
    except (OSError, ValueError) as error:
        raise SocketRefused(what, str(error).lower(), _HINT) from error


def _refuse_password() -> str:
    raise ValueError("the key has a password; save the key without a password")


def _read_certificate(context: ssl.SSLContext, cert: Path) -> Certificate:
    """Read the certificate by a handshake in memory.

    Python shows the details only of a peer's certificate.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    client.load_verify_locations(cert)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server)
    server_side = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client_side, server_side) * _ROUNDS:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    peer: Any = client_side.getpeercert()
    names = frozenset(
        str(ipaddress.ip_address(name)) if kind == "IP Address" else name.lower()
        for kind, name in peer.get("subjectAltName", ())
        if kind in ("DNS", "IP Address")
    )
    return Certificate(names, ssl.cert_time_to_seconds(peer["notAfter"]))


def load_server_tls(config: Config) -> ServerTls | None:
    """Load the TLS settings of access.listen. Returns None if no certificate is configured.

    Raises SocketRefused if the certificate cannot be used.
    """
    access = config.access
    if not (access.listen and access.tls_cert and access.tls_key):
        return None
    return ServerTls(access.tls_cert, access.tls_key)


class ServerTls:
    """The certificate and key, which are reloaded when their files change.

    If changed files cannot be used, `problem` says why, and the earlier certificate stays in use.
    """

    def __init__(self, cert: Path, key: Path) -> None:
        self._files = (cert, key)
        self._state = self._look()
        self._looked_s = time.monotonic()
        self._context, self.certificate = load_certificate(cert, key)
        self.problem: str | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a new connection. Reloads the certificate if its files have changed."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            state = self._look()
            if state != self._state:
                self._state = state
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context, self.certificate = load_certificate(*self._files)
        except SocketRefused as error:
            self.problem = f"{error.what}: {error.why}"
            log.error(
                "the changed certificate cannot be used; the earlier certificate stays",
                why=str(error),
            )
            return
        self.problem = None
        log.info("the certificate was reloaded", expires_s=self.certificate.expires_s)

    def _look(self) -> object:
        try:
            states = [file.stat() for file in self._files]
        except OSError as error:
            return error.errno
        return [(state.st_ino, state.st_mtime_ns, state.st_size, state.st_mode) for state in states]


class Handshakes:
    """Holds the connections that have not finished the TLS handshake, oldest first."""

    def __init__(self, limit: int = MAX_HANDSHAKES) -> None:
        self._limit = limit
        self._open: dict[TlsStart, str] = {}

    def add(self, new: TlsStart, address: str) -> None:
        """Add a connection. At the limit, close the oldest connection of the address with the most
        connections."""
        if len(self._open) >= self._limit:
            ((busiest, _),) = Counter(self._open.values()).most_common(1)
            next(start for start, address in self._open.items() if address == busiest).abort()
        self._open[new] = address

    def remove(self, ended: TlsStart) -> None:
        self._open.pop(ended, None)


@dataclass(eq=False, repr=False)
class TlsStart(asyncio.Protocol):
    """Performs the TLS handshake of a connection.

    Afterwards, the connection is passed to a protocol that `make` creates.
    """

    _tls: ServerTls
    _handshakes: Handshakes
    _within_s: float
    _make: Callable[[], asyncio.Protocol]
    _transport: asyncio.Transport | None = None
    _task: asyncio.Task[None] | None = None
    # Data received with the end of the handshake.
    _early: bytearray = field(default_factory=bytearray)
    _is_lost: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # until the TLS protocol reads
        self._transport = transport
        self._handshakes.add(self, (transport.get_extra_info("peername") or ("",))[0])
        self._task = asyncio.ensure_future(self._start(transport))

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    def abort(self) -> None:
        self._handshakes.remove(self)
        if self._transport:
            self._transport.abort()
        if self._task:
            self._task.cancel()

    async def _start(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport,
                self,
                self._tls.context,
                server_side=True,
                ssl_handshake_timeout=self._within_s,
            )
        except OSError as error:  # includes TLS errors, whose reason the client sees
            log.debug("a connection did not start TLS", why=str(error))
            transport.abort()
            return
        finally:
            self._handshakes.remove(self)
        if secured is None or self._is_lost:
            transport.abort()
            return
        protocol = self._make()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early:
            protocol.data_received(bytes(self._early))
