"""The daemon's side: a worker process, started when wanted and ended when in doubt."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import structlog

import hopsyncd
from hopsyncd.errors import DocumentUnreadable, ExtractionUnavailable
from hopsyncd.extraction.wire import LENGTH, READY, request_of, result_of
from hopsyncd.text.blocks import Block
from hopsyncd.text.extract import extract, is_light
from store.records import content_hash

log = structlog.get_logger(__name__)

_ROOT = Path(hopsyncd.__file__).resolve().parents[1]
WORKER = (sys.executable, "-P", "-m", "hopsyncd.extraction.worker")

_PIECE_BYTES = 1 << 16
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may take.

    A small one ends before anybody waits for it; each MiB gives it more of both kinds of time.
    Any time is a multiple of processor time, as a busy machine is no fault of the document's.
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


class _Died(Exception):
    """The worker is no more; `again` where it may have died of what it had read before."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.again = again


class ExtractionProcess:
    """Reads documents in a process of its own, those that are small and simple in this one.

    For one thread at a time. `give_way` is called while it waits: it may raise to abandon the
    document, or have another read meanwhile, for which there is a second worker.
    What killed a worker is not tried again, under whatever name it comes: `quarantined` says why by
    the hash of the content, and `on_quarantine` is told of what is added to it.
    """

    def __init__(
        self,
        give_way: Callable[[], None] = lambda: None,
        limits: Limits = Limits(),
        command: Sequence[str] = WORKER,
        quarantined: Mapping[bytes, str] = MappingProxyType({}),
        on_quarantine: Callable[[bytes, str], None] = lambda content, why: None,
    ) -> None:
        self._give_way = give_way
        self._limits = limits
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._served = 0
        self._is_asking = False
        self._second: ExtractionProcess | None = None
        self._quarantined = dict(quarantined)
        self._on_quarantine = on_quarantine

    def extract(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        """As hopsyncd.text.extract.extract, within the limits.

        Raises DocumentUnreadable; ExtractionUnavailable when no worker can be started.
        """
        if len(data) <= self._limits.light_bytes and is_light(media_type):
            return extract(data, media_type)
        content = content_hash(media_type.encode() + b"\0" + data)
        if content in self._quarantined:
            raise _in_quarantine(self._quarantined[content])
        if self._is_asking:
            return self._beside().extract(data, media_type)
        self._is_asking = True
        try:
            return self._extract(data, media_type)
        except _Died as death:
            log.warning("extraction worker ended", why=death.why, media_type=media_type)
            self._quarantined[content] = death.why
            self._on_quarantine(content, death.why)
            raise _in_quarantine(death.why) from death
        finally:
            self._is_asking = False

    def close(self) -> None:
        """End the workers, whatever they do."""
        self._end()
        if self._second:
            self._second.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()

    def _beside(self) -> "ExtractionProcess":
        self._second = self._second or ExtractionProcess(
            self._give_way, self._limits, self._command, self._quarantined, self._on_quarantine
        )
        return self._second

    def _extract(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        """Ask the worker; once more in a fresh one if it may have died of what came before."""
        if self._served >= self._limits.documents_per_worker:
            self._end()
        is_worn = self._process is not None
        try:
            return self._ask(data, media_type)
        except _Died as death:
            if not (is_worn and death.again):
                raise
        return self._ask(data, media_type)

    def _ask(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        process = self._process or self._start()
        size_mib = len(data) / (1 << 20)
        limits = self._limits
        cpu_s = limits.cpu_s + limits.cpu_s_per_mib * size_mib
        wall_s = limits.wall_s + limits.wall_s_per_mib * size_mib
        request = request_of(data, media_type, round(cpu_s), round(wall_s) + 1)
        self._served += 1
        try:
            with memoryview(request) as rest:
                reply = _Exchange(process, self._give_way, limits).run(rest, wall_s)
            return result_of(reply)
        except ValueError as error:
            self._end()
            raise _Died("made the worker say nonsense") from error
        except DocumentUnreadable:
            raise
        except BaseException:
            self._end()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until it is there: before that, no document is to blame."""
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(_ROOT),
            "MALLOC_ARENA_MAX": "2",  # each arena takes 64 MiB of what the limit counts
        }
        try:
            process = subprocess.Popen(
                [*self._command, str(self._limits.memory_bytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the daemon
            )
        except OSError as error:
            raise _unavailable(str(error)) from error
        self._process, self._served = process, 0
        try:
            exchange = _Exchange(process, self._give_way, self._limits)
            exchange.expect_ready(self._limits.wall_s)
        except _Died as death:
            self._end()
            raise _unavailable(f"a worker that began {death.why}") from death
        except BaseException:
            self._end()
            raise
        return process


def _in_quarantine(why: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        "the document",
        f"reading it {why}",
        "It is in quarantine until its content changes, or hopsyncd does: repair it, save it in"
        " another format, or leave it out by an ignore pattern",
    )


def _unavailable(why: str) -> ExtractionUnavailable:
    return ExtractionUnavailable(
        "Documents cannot be read",
        why,
        "`python -m hopsyncd.extraction.worker 1073741824`, run by hand, says more",
    )


class _Exchange:
    """One request and its reply, with a deadline, over pipes that never block this side."""

    def __init__(
        self, process: subprocess.Popen[bytes], give_way: Callable[[], None], limits: Limits
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._give_way = give_way
        self._limits = limits
        self._requests, self._replies = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._requests, False)
        self._got = bytearray()

    def run(self, request: memoryview, wall_s: float) -> bytearray:
        """Send the request and give back the reply. Raises _Died."""
        self._until(LENGTH.size, request, wall_s)
        (size,) = LENGTH.unpack(self._got[: LENGTH.size])
        if size > self._limits.reply_bytes:
            raise _Died(f"gives more than {self._limits.reply_bytes >> 20} MiB of text")
        self._until(LENGTH.size + size, memoryview(b""), wall_s)
        del self._got[: LENGTH.size]
        return self._got

    def expect_ready(self, wall_s: float) -> None:
        """Wait for a worker's first words."""
        self._until(len(READY), memoryview(b""), wall_s)
        if self._got != READY:
            raise _Died("did not say so")

    def _until(self, size: int, rest: memoryview, wall_s: float) -> None:
        """Send the rest and receive until there are so many bytes."""
        end_s = time.monotonic() + wall_s
        while len(self._got) < size:
            waited_s = time.monotonic()
            self._give_way()
            end_s += time.monotonic() - waited_s  # that was not the document's
            if time.monotonic() > end_s:
                raise _Died(f"takes longer than {wall_s:.0f} s")
            poll = select.poll()
            poll.register(self._replies, select.POLLIN)
            if rest:
                poll.register(self._requests, select.POLLOUT)
            ready = {number for number, _ in poll.poll(_POLL_S * 1000)}
            if self._requests in ready:
                rest = rest[self._sent(rest) :]
            if self._replies in ready:
                self._receive(size)

    def _sent(self, rest: memoryview) -> int:
        try:
            return os.write(self._requests, rest[:_PIECE_BYTES])
        except BrokenPipeError:
            raise self._death() from None

    def _receive(self, size: int) -> None:
        piece = os.read(self._replies, min(_PIECE_BYTES, size - len(self._got)))
        if not piece:
            raise self._death()
        self._got += piece

    def _death(self) -> _Died:
        """Why the worker hung up."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return _Died("made the worker hang up")
        if code == -signal.SIGXCPU:
            return _Died("takes too much processor time")
        if code == -signal.SIGALRM:
            return _Died("takes too long")
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return _Died(f"crashes the reader ({name})", again=True)
