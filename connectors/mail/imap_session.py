"""Talks to an untrusted IMAP server, with limits on memory and time.

The module uses imaplib directly, because IMAPClient, which is based on imaplib, limits neither.
"""

import base64
import binascii
import imaplib
import os
import re
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from connectors.protocol import SourceUnavailable
from connectors.settings import ImapSettings

Answer: TypeAlias = Sequence[Any]
"""The data of a reply from imaplib: bytes, (bytes, literal) pairs, or None."""

_WORDS_BYTES = 4 << 20  # the limit for a reply, without the message that it contains
_ROW = re.compile(rb"^\d+ \(")
_UID = re.compile(rb"\bUID (\d{1,10})\b")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d{1,20})\b")
_LISTED = re.compile(rb'^\(([^)]*)\) (?:(?i:NIL)|"(?:\\.|[^"\\])*") (.+)$', re.DOTALL)
_SHIFTED = re.compile(r"&([^&-]*)-")


class Deadline:
    """Closes the connection if a `with` block takes too long.

    A timeout on single reads would not stop a server that sends one byte at a time.
    """

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
        """Close the connection to `server` at the deadline, even if the server has not sent its
        greeting yet."""
        self._server = server

    def _cut(self) -> None:
        self.passed = True
        with suppress(OSError, AttributeError):  # the socket may be closed or not open yet
            self._server.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


class _BoundedAnswers:
    """Limits the size and duration of the response to each command."""

    max_answer_bytes: int
    deadline: Deadline | None
    _taken_bytes = 0

    def open(self, *where: Any, **more: Any) -> None:
        super().open(*where, **more)  # type: ignore[misc]
        if self.deadline:
            self.deadline.watch(self)  # type: ignore[arg-type]

    def send(self, data: Any) -> None:
        """Send data. First drops the responses to earlier commands, which imaplib would keep."""
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
                f"the server's answer exceeds {self.max_answer_bytes:,} bytes"
            )


class _Plain(_BoundedAnswers, imaplib.IMAP4):
    pass


class _Tls(_BoundedAnswers, imaplib.IMAP4_SSL):
    pass


def log_in(settings: ImapSettings, deadline: Deadline | None) -> imaplib.IMAP4:
    """Connect to an IMAP server and log in. Raises OSError, imaplib's errors, or
    SourceUnavailable."""
    password = os.environ.get(settings.password_env)
    if not password:
        raise SourceUnavailable(
            f"Cannot read the mail of {settings.user} at {settings.host}",
            f"the environment variable {settings.password_env} is not set",
            "Set this variable to the account's password in the environment of the daemon.",
        )
    context = None if settings.tls == "off" else ssl.create_default_context(cafile=settings.ca_file)
    # The limits are class attributes, because the constructor already reads the greeting.
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


@dataclass(frozen=True, slots=True)
class Listed:
    """A mail folder. `raw` is its name on the server, `name` is the decoded name, and `flags` are
    in lower case."""

    name: str
    raw: str
    flags: frozenset[str]


def parse_folders(data: Answer) -> list[Listed]:
    """Parse the folders in the response to LIST.

    Raises IMAP4.abort for a line that cannot be parsed, because a skipped folder would seem
    deleted.
    """
    folders = []
    for row in data:
        head, literal = row if isinstance(row, tuple) else (row, None)
        if not head:
            continue
        match = _LISTED.match(head)
        if match is None:
            raise imaplib.IMAP4.abort(
                f"the server's folder list has an unreadable line: {head[:100]!r}"
            )
        raw = (_unquote(match[2]) if literal is None else literal).decode("latin-1")
        flags = frozenset(match[1].decode("ascii", "replace").lower().split())
        folders.append(Listed(_decode_utf7(raw), raw, flags))
    return folders


def fetch_rows(data: Answer) -> list[tuple[int, int]]:
    """Parse the UID and size of each message in the response to FETCH."""
    rows = []
    for row in data:
        if isinstance(row, bytes) and _ROW.match(row):
            uid, size = _UID.search(row), _SIZE.search(row)
            if uid and size:
                rows.append((int(uid[1]), int(size[1])))
    return rows


def quote_name(raw: str) -> str:
    r"""Quote a folder's name as an argument of a command. Raises ValueError if the name has a line
    break.

    >>> quote_name('a "b"')
    '"a \\"b\\""'
    """
    if re.search(r"[\r\n\0]", raw):
        raise ValueError(f"the folder name {raw!r} has a line break")
    return '"' + raw.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquote(text: bytes) -> bytes:
    text = text.strip()
    return re.sub(rb"\\(.)", rb"\1", text[1:-1]) if text.startswith(b'"') else text


def _decode_utf7(raw: str) -> str:
    """Decode modified UTF-7 (RFC 3501, 5.1.3). Text that is not modified UTF-7 is returned
    unchanged.

    >>> _decode_utf7("Entw&APw-rfe"), _decode_utf7("R&-D")
    ('Entwürfe', 'R&D')
    """

    def decode_name(match: re.Match[str]) -> str:
        if not match[1]:
            return "&"
        padded = match[1].replace(",", "/") + "=" * (-len(match[1]) % 4)
        return base64.b64decode(padded, validate=True).decode("utf-16-be")

    try:
        return _SHIFTED.sub(decode_name, raw)
    except (binascii.Error, UnicodeDecodeError):
        return raw
