"""Reads an mbox file as a source. Each message in the file begins with a `From ` line.

Mail programs rewrite such files and store flags in their own header fields. The id of a message is
therefore its Message-ID, or a hash if it has no Message-ID, and its revision is a hash that ignores
these fields. The file is reread only if it has changed.
"""

import hashlib
import io
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from connectors.mail import DEFAULT_MAX_MESSAGE_BYTES
from connectors.mail.message import (
    MAX_HEAD_BYTES,
    describe_too_large,
    is_discarded,
    make_fetched,
    parse_head,
    read_message_id,
)
from connectors.protocol import (
    Fetched,
    Found,
    Item,
    ItemUnreadable,
    Problem,
    Selection,
    SourceUnavailable,
    vanished_error,
)
from connectors.regular_file import format_revision

_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 4096  # more than a `From ` line and the header field after it
# A `From ` line, not a sentence: it has a blank line before it, and a header field after it or a
# date in it. The expression begins with its rarest part, which makes it ten times as fast.
_LINE = (
    rb"(From [^\n]*\n(?=[!-9;-~]+:)"
    rb"|From \S+ +(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] +\d{1,2} +\d\d:[^\n]*\n(?=\r?\n))"
)
_START = re.compile(rb"\n" + _LINE)
_FIRST_START = re.compile(_LINE)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_FLAGS = re.compile(
    rb"^(?:Status|X-Status|X-Keywords|X-UID|X-IMAP|X-IMAPbase|X-Mozilla-[A-Za-z0-9]+"
    rb"|Content-Length|Lines):[^\n]*\n(?:[ \t][^\n]*\n)*",
    re.MULTILINE | re.IGNORECASE,
)
_HEAD_END = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True, slots=True)
class _Span:
    """The position of a message in the file, after its `From ` line."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class _Contents:
    """The messages in one revision of the file, by id. Only their positions are in memory."""

    revision: str
    entries: dict[str, tuple[Item | Problem, _Span]]


class MboxConnector:
    """Lists and reads the messages of an mbox file. Messages over `max_bytes` are problems."""

    def __init__(self, path: Path, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._last = _Contents("", {})

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Implement `Connector.discover`. Every listing is complete, so there is no cursor."""
        parts = Selection(under)
        with self._open() as file:
            contents = self._scan(file)
        for id_, (item, _) in contents.entries.items():
            if parts.has(id_):
                yield item

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`."""
        with self._open() as file:
            _, span = self._scan(file).entries.get(item.id, (None, None))
            message = self._read_message(file, span) if span else None
        if span is None or message is None:
            raise vanished_error(item.id)
        if span.size_bytes > self._max_bytes:
            raise ItemUnreadable(
                f"Cannot read {item.id!r}", *describe_too_large(span.size_bytes, self._max_bytes)
            )
        return make_fetched(message[1], _hash(message[1]))

    def close(self) -> None:
        """Do nothing: no resource stays open."""

    def _scan(self, file: BinaryIO) -> _Contents:
        """Scan the file, and return its messages. Raises SourceUnavailable if the file changes
        during the scan."""
        revision = format_revision(os.fstat(file.fileno()))
        if self._last.revision != revision:
            entries = {item.id: (item, span) for item, span in self._read_entries(file)}
            if format_revision(os.fstat(file.fileno())) != revision:
                raise self._unavailable_error("another program changed the file during the listing")
            self._last = _Contents(revision, entries)
        return self._last

    def _read_entries(self, file: BinaryIO) -> Iterator[tuple[Item | Problem, _Span]]:
        """Yield every message in order, except Gmail's spam and trash. If a Message-ID is repeated,
        a number is appended to it."""
        times: dict[str, int] = {}
        for span in _find_spans(file, os.fstat(file.fileno()).st_size):
            message = self._read_message(file, span)
            if message is None:
                continue
            id_, data = message
            if is_discarded(parse_head(data)):
                continue
            times[id_] = times.get(id_, 0) + 1
            id_ = id_ if times[id_] == 1 else f"{id_}#{times[id_]}"
            if span.size_bytes > self._max_bytes:
                yield Problem(id_, *describe_too_large(span.size_bytes, self._max_bytes)), span
            else:
                yield Item(id_, _hash(data)), span

    def _read_message(self, file: BinaryIO, span: _Span) -> tuple[str, bytes] | None:
        """Return the id and the content of a message, or only the head of a message that is too
        large. Returns None if the message is blank."""
        size = span.size_bytes
        file.seek(span.start)
        data = file.read(size if size <= self._max_bytes else MAX_HEAD_BYTES)
        if not data.strip():
            return None
        data = _strip_additions(data)
        return read_message_id(parse_head(data)) or f"sha256-{_hash(data)}", data

    def _open(self) -> BinaryIO:
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unavailable_error((error.strerror or str(error)).lower()) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise self._unavailable_error("the path is not a file")
        return os.fdopen(handle, "rb", buffering=0)

    def _unavailable_error(self, why: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"Cannot list the mailbox {self._path}",
            why,
            "The next scan tries again. If the error persists, check that `path` of this source in "
            "config.toml is an mbox file that the daemon's user may read. Indexed mail stays "
            "searchable.",
        )


def split_messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages in an mbox file, without the header fields and marks that mail programs
    add."""
    for span in _find_spans(io.BytesIO(data), len(data)):
        message = data[span.start : span.end]
        if message.strip():
            yield _strip_additions(message)


def _find_spans(file: BinaryIO, end: int) -> Iterator[_Span]:
    start: int | None = None
    for line, message in _find_starts(file):
        if start is not None:
            yield _Span(start, line)
        start = message
    if start is not None:
        yield _Span(start, end)


def _find_starts(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield the start and end position of each `From ` line. Reads in blocks, so the caller may
    seek between them."""
    base, buffer, done = 0, b"", 0
    while True:
        file.seek(base + len(buffer))
        block = file.read(_BLOCK_BYTES)
        buffer += block
        first = _FIRST_START.match(buffer) if base == 0 else None
        starts = (f for f in _START.finditer(buffer) if _ends_blank(buffer, f.start()))
        for match in (first, *starts) if first else starts:
            if base + match.start(1) >= done:
                yield base + match.start(1), base + match.end(1)
                done = base + match.end(1)
        if not block:
            return
        cut = max(len(buffer) - _OVERLAP_BYTES, 0)
        base, buffer = base + cut, buffer[cut:]


def _ends_blank(buffer: bytes, end: int) -> bool:
    """Whether the line that ends at `end` (before its line feed) is blank."""
    return buffer[max(end - 2, 0) : end].endswith((b"\n", b"\n\r"))


def _strip_additions(data: bytes) -> bytes:
    """Remove the additions of mail programs from a message: fields with flags, and `>` before `From
    `."""
    match = _HEAD_END.search(data)
    end = match.start() + 1 if match else len(data)
    body = data[end:]
    if b">From " in body:
        body = _QUOTED_FROM.sub(rb"\1", body)
    return _FLAGS.sub(b"", data[:end]) + body.rstrip() + b"\n"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
