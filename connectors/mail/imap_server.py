"""A logged in connection to an IMAP server that is not trusted: not with memory, nor with time."""

import imaplib
import os
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

from connectors.errors import SourceUnavailable
from connectors.mail.settings import ImapSettings

_WORDS_BYTES = 4 << 20  # of an answer, beside the message in it


class Deadline:
    """Cuts the connection of a `with` block that takes longer: a server that sends a byte now and
    then would never run into the time limit of one read."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.passed = False
        self._server: imaplib.IMAP4 | None = None
        self._timer = threading.Timer(limit_s, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, server: imaplib.IMAP4) -> None:
        """The connection to cut, from before its first word."""
        self._server = server

    def _cut(self) -> None:
        self.passed = True
        with suppress(OSError, AttributeError):  # it may be closed, or not open yet
            self._server.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


class _Bounded:
    """Refuses to take in more than a message and some words in answer to one command; its deadline
    knows it."""

    max_answer_bytes: int
    deadline: Deadline | None
    _taken_bytes = 0

    def open(self, *where: Any, **more: Any) -> None:
        super().open(*where, **more)  # type: ignore[misc]
        if self.deadline:
            self.deadline.watch(self)  # type: ignore[arg-type]

    def send(self, data: Any) -> None:
        """What came in answer to earlier commands was read: imaplib would keep it."""
        self.untagged_responses: dict[str, Any] = {}
        self._taken_bytes = 0
        super().send(data)  # type: ignore[misc]

    def read(self, size: int) -> bytes:
        self._take(size)
        return super().read(size)  # type: ignore[misc, no-any-return]

    def readline(self) -> bytes:
        line: bytes = super().readline()  # type: ignore[misc]
        self._take(len(line))
        return line

    def _take(self, size_bytes: int) -> None:
        self._taken_bytes += size_bytes
        if self._taken_bytes > self.max_answer_bytes:
            raise imaplib.IMAP4.abort(
                f"the server answers with more than {self.max_answer_bytes:,} bytes"
            )


class _Plain(_Bounded, imaplib.IMAP4):
    pass


class _Tls(_Bounded, imaplib.IMAP4_SSL):
    pass


def logged_in(settings: ImapSettings, deadline: Deadline | None) -> imaplib.IMAP4:
    """Raises OSError and imaplib's errors, and SourceUnavailable where no password is set."""
    password = os.environ.get(settings.password_env)
    if not password:
        raise SourceUnavailable(
            f"Cannot read the mail of {settings.user} at {settings.host}",
            f"the environment variable {settings.password_env} is not set",
            "Set it to the account's password where the daemon is started.",
        )
    context = None if settings.tls == "off" else ssl.create_default_context(cafile=settings.ca_file)
    # The class, not the object: the greeting is read before it is made.
    base: type[Any] = _Tls if settings.tls == "tls" else _Plain
    limits = {"max_answer_bytes": settings.max_bytes + _WORDS_BYTES, "deadline": deadline}
    kind = type(base.__name__, (base,), limits)
    of_tls = {"ssl_context": context} if settings.tls == "tls" else {}
    server: imaplib.IMAP4 = kind(settings.host, settings.port, timeout=settings.timeout_s, **of_tls)
    try:
        if settings.tls == "starttls":
            server.starttls(context)
        server.login(settings.user, password)
    except BaseException:
        server.shutdown()
        raise
    return server
