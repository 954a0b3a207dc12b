"""Encodes the messages between the daemon and its reader process, and sends them over two pipes
with deadlines.

A worker first sends READY. A request is a header (REQUEST), the media type and the bytes of a
document. A reply is its length (LENGTH) and lines of JSON: arrays of blocks, or an object with the
error. JSON is used so that a compromised worker can at worst send a wrong answer.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, get_args

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block, Kind, WrittenLink

READY = b"ready\n"
# seconds of CPU time and wall time; bytes of the type and of the document
REQUEST = Struct("!IIII")
LENGTH = Struct("!I")
MAX_BLOCKS = 250_000
_BLOCKS_A_LINE = 1000
_TOO_MANY_HINT = "Split the file, or add it to `ignore`"
_KINDS = frozenset(get_args(Kind))


def encode_request(data: bytes, media_type: str, cpu_s: int, wall_s: int) -> bytes:
    kind = media_type.encode()
    return REQUEST.pack(cpu_s, wall_s, len(kind), len(data)) + kind + data


def encode_reply(result: Sequence[Block] | DocumentUnreadable | ReaderUnavailable) -> bytes:
    """Encode a reply, without its length."""
    if not isinstance(result, DocumentUnreadable | ReaderUnavailable) and len(result) > MAX_BLOCKS:
        why = f"the file has more than {MAX_BLOCKS:,} paragraphs, list items or rows"
        result = DocumentUnreadable("the document", why, _TOO_MANY_HINT)
    if isinstance(result, DocumentUnreadable | ReaderUnavailable):
        fields = {"what": result.what, "why": result.why, "hint": result.hint}
        return json.dumps({"is_reader": isinstance(result, ReaderUnavailable), **fields}).encode()
    pieces = (
        result[start : start + _BLOCKS_A_LINE] for start in range(0, len(result), _BLOCKS_A_LINE)
    )
    return b"\n".join(json.dumps([*map(_encode_row, piece)]).encode() for piece in pieces)


def decode_result(reply: bytes | bytearray) -> tuple[Block, ...]:
    """Decode the blocks of a reply.

    Raises the reported DocumentUnreadable or ReaderUnavailable, or ValueError for an invalid reply.
    """
    blocks: list[Block] = []
    # Line by line, because JSON parsing blocks all other threads.
    for line in reply.splitlines():
        record: Any = json.loads(line)
        if isinstance(record, dict):
            raise _parse_error(record)
        try:
            blocks += map(_decode_block, record)
        except (TypeError, ValueError) as error:
            raise ValueError("the reply does not consist of blocks") from error
        if len(blocks) > MAX_BLOCKS:
            raise ValueError("the reply has too many blocks")
    return tuple(blocks)


def _parse_error(record: Mapping[str, Any]) -> DocumentUnreadable | ReaderUnavailable:
    """Decode a reported error. Raises ValueError if the object is not an error."""
    if not record.keys() >= {"what", "why", "hint"}:
        raise ValueError("the reply does not consist of blocks")
    kind = ReaderUnavailable if record.get("is_reader") else DocumentUnreadable
    return kind(str(record["what"]), str(record["why"]), str(record["hint"]))


def _encode_row(block: Block) -> tuple[object, ...]:
    links = [(offset, (link.target, link.text)) for offset, link in block.links]
    fields = (block.kind, block.text, block.first_line, block.last_line, block.level)
    return (*fields, links, block.names, block.leads, block.properties)


def _decode_block(row: Sequence[Any]) -> Block:
    """Decode a block. Raises TypeError or ValueError if a reader cannot have produced it."""
    kind, text, first_line, last_line, level, links, names, leads, properties = row
    placed = tuple((offset, WrittenLink(*link)) for offset, link in links)
    pairs = tuple((name, value) for name, value in properties)
    texts = (text, *names, *leads, *(part for pair in pairs for part in pair))
    shown = (part for _, link in placed for part in (link.target, link.text))
    numbers = (first_line, last_line, level, *(offset for offset, _ in placed))
    if kind not in _KINDS or not (_are(str, (*texts, *shown)) and _are(int, numbers)):
        raise TypeError("a field of the block has the wrong type")
    return Block(
        kind, text, first_line, last_line, level, placed, tuple(names), tuple(leads), pairs
    )


def _are(kind: type, values: Iterable[object]) -> bool:
    return all(isinstance(value, kind) for value in values)


_PIECE_BYTES = 1 << 16
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for reading a document.

    Each MiB of the document adds to both time limits. The wall time limit is several times as long
    as the CPU time limit, so that reading does not fail on a busy machine.
    """

    cpu_s: float = 4.0
    cpu_s_per_mib: float = 4.0
    wall_s: float = 30.0
    wall_s_per_mib: float = 12.0
    memory_bytes: int = 1 << 30
    reply_bytes: int = 64 << 20
    documents_per_worker: int = 200
    # Markdown made of brackets takes the parser 12 s a MiB: 0.8 s of the daemon's time at most.
    light_bytes: int = 1 << 16


class Died(Exception):
    """The worker ended or broke the protocol.

    `why` is a verb phrase, such as "takes too long". If `again` is true, an earlier document may be
    the cause. If `killed` is true, the system or another program ended the worker, usually because
    memory ran out.
    """

    def __init__(self, why: str, *, again: bool = False, killed: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.again = again
        self.killed = killed


class ReaderExchange:
    """Sends a request to the worker and receives its reply before a deadline.

    The pipes are non-blocking, so the daemon never hangs.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], yield_to_edits: Callable[[], None], limits: Limits
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._yield_to_edits = yield_to_edits
        self._limits = limits
        self._requests, self._replies = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._requests, False)
        self._got = bytearray()

    def run(self, request: memoryview, wall_s: float) -> bytearray:
        """Send the request and return the reply. Raises Died if no valid reply arrives within
        `wall_s`."""
        self._receive_until(LENGTH.size, request, wall_s)
        (size,) = LENGTH.unpack(self._got[: LENGTH.size])
        if size > self._limits.reply_bytes:
            raise Died(f"yields more than {self._limits.reply_bytes >> 20} MiB of text")
        self._receive_until(LENGTH.size + size, memoryview(b""), wall_s)
        del self._got[: LENGTH.size]
        return self._got

    def expect_ready(self, wall_s: float) -> None:
        """Wait until the worker reports that it is ready. Raises Died if that takes longer than
        `wall_s`."""
        self._receive_until(len(READY), memoryview(b""), wall_s)
        if self._got != READY:
            raise Died("gives an invalid reply")

    def _receive_until(self, size: int, unsent: memoryview, wall_s: float) -> None:
        """Send `unsent`, and receive until there are `size` bytes. Raises Died after `wall_s`
        seconds."""
        end_s = time.monotonic() + wall_s
        while len(self._got) < size:
            waited_s = time.monotonic()
            self._yield_to_edits()
            end_s += time.monotonic() - waited_s  # this wait does not count against the document
            if time.monotonic() > end_s:
                raise Died(f"takes longer than {wall_s:.0f} s")
            poll = select.poll()
            poll.register(self._replies, select.POLLIN)
            if unsent:
                poll.register(self._requests, select.POLLOUT)
            ready = {number for number, _ in poll.poll(_POLL_S * 1000)}
            if self._requests in ready:
                unsent = unsent[self._send(unsent) :]
            if self._replies in ready:
                self._receive(size)

    def _send(self, unsent: memoryview) -> int:
        try:
            return os.write(self._requests, unsent[:_PIECE_BYTES])
        except BrokenPipeError:
            raise self._describe_death() from None

    def _receive(self, size: int) -> None:
        piece = os.read(self._replies, min(_PIECE_BYTES, size - len(self._got)))
        if not piece:
            raise self._describe_death()
        self._got += piece

    def _describe_death(self) -> Died:
        """Describe why the worker closed its pipe."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return Died("ends without a reply")
        if code == -signal.SIGXCPU:
            return Died("takes too much processor time")
        if code == -signal.SIGALRM:
            return Died("takes too long")
        if code in (-signal.SIGKILL, -signal.SIGTERM):
            name = signal.Signals(-code).name
            return Died(
                f"was ended from outside ({name}), probably because memory ran out", killed=True
            )
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Died(f"crashes the reader ({name})", again=True)
