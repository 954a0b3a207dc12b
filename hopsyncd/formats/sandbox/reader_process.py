"""Runs the worker process on the daemon's side: starts it on demand, and ends it after errors."""

import base64
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType

import structlog

import hopsyncd
from hopsyncd.child_process import ChildProcess, Process, Restarts, StartRefused, start_child
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.images import IMAGES, make_no_text_error
from hopsyncd.formats.media_types import PDF
from hopsyncd.formats.readers import (
    PICTURE_OF_PAGE,
    PICTURES,
    PREVIEW_OF_PAGE,
    extract,
    is_light,
    load_text_readers,
    strip_parameters,
)
from hopsyncd.formats.sandbox.messages import (
    Died,
    Limits,
    ReaderExchange,
    decode_result,
    encode_request,
)
from hopsyncd.formats.sandbox.samples import SAMPLES
from hopsyncd.formats.sandbox.tesseract import Tesseract
from store.records import hash_content

log = structlog.get_logger(__name__)

_ROOT = Path(hopsyncd.__file__).resolve().parents[1]
_TRIAL_AFTER_S = 2.0
_IDLE_S = 60.0  # an idle worker ends after this time
_MOST_PICTURES = 500  # the most pages of a PDF to recognize. Each page takes a second or two.
WORKER = (sys.executable, "-P", "-m", "hopsyncd.formats.sandbox.reader_worker")
# After this many failed starts in a row, no start is tried for this multiple of the last duration.
# Otherwise each of thousands of documents would wait for a start.
_FAILED_STARTS, _REST, _LONGEST_REST_S = 3, 20, 60.0


class ExtractionProcess:
    """Reads documents in a separate process. The calling process reads small, simple documents.

    An instance is not thread-safe. While an instance waits, it calls `yield_to_edits`, which may
    raise an error to abandon the document, or use the same instance to read another document with a
    second worker.

    Content that killed a worker is never tried again, whatever its name. `quarantined` maps the
    hash of such content to the reason, and `on_quarantine` receives each new hash and reason. A
    document is blamed only if a sample of its type can be read; `unavailable` maps types to the
    errors of their samples. `tesseract` reads pictures and PDF pages without text.
    """

    def __init__(
        self,
        yield_to_edits: Callable[[], None] = lambda: None,
        limits: Limits = Limits(),  # noqa: B008 - it is frozen
        command: Sequence[str] = WORKER,
        quarantined: Mapping[bytes, str] = MappingProxyType({}),
        on_quarantine: Callable[[bytes, str], None] = lambda content, why: None,
        unavailable: MutableMapping[str, ReaderUnavailable] | None = None,
        tesseract: Tesseract | None = None,
    ) -> None:
        self._yield_to_edits = yield_to_edits
        self._limits = limits
        self._command = command
        restarts = Restarts(_FAILED_STARTS, (ReaderUnavailable,), _REST, _LONGEST_REST_S)
        self._child = ChildProcess(self._start, self._expect_ready, restarts)
        self._served = 0
        self._used_s = 0.0
        self._is_asking = False
        self._second: ExtractionProcess | None = None
        self._quarantined = dict(quarantined)
        self._on_quarantine = on_quarantine
        self._unavailable = {} if unavailable is None else unavailable
        self._tesseract = tesseract
        self._proven: set[str] = set()  # types that this worker has read

    def extract(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        """Read a document like hopsyncd.formats.readers.extract, within the limits.

        Raises DocumentUnreadable, or ReaderUnavailable if documents of this type cannot be read at
        all.
        """
        if len(data) <= self._limits.light_bytes and is_light(media_type, data):
            return extract(data, media_type)
        content = hash_content(media_type.encode() + b"\0" + data)
        if content in self._quarantined:
            raise _quarantine_error(self._quarantined[content])
        if self._is_asking:
            return self._get_second().extract(data, media_type)
        self._is_asking = True
        try:
            return self._read(data, media_type)
        except Died as death:
            log.warning("extraction worker ended", why=death.why, media_type=media_type)
            self._quarantined[content] = death.why
            self._on_quarantine(content, death.why)
            raise _quarantine_error(death.why) from death
        finally:
            self._is_asking = False
            self._used_s = time.monotonic()

    def preview_page(self, data: bytes, page: int, text: str) -> Block:
        """Render a page of a PDF as a picture in base64, and find `text` on that page (see
        pdf_page.preview_page).

        Raises DocumentUnreadable, or ReaderUnavailable if PDFs cannot be read at all.
        """
        content = hash_content(PDF.encode() + b"\0" + data)
        if content in self._quarantined:
            raise _quarantine_error(self._quarantined[content])
        try:
            (block,) = self._ask(data, f"{PDF}{PREVIEW_OF_PAGE}{page};{text}") or (None,)
        except Died as death:
            log.warning("extraction worker ended", why=death.why, media_type=PDF)
            self._quarantined[content] = death.why
            raise _quarantine_error(death.why) from death
        finally:
            self._used_s = time.monotonic()
        if block is None:
            raise DocumentUnreadable(
                "the document", "the page cannot be rendered", "Open the file in a PDF viewer"
            )
        return block

    def end_idle(self, idle_s: float = _IDLE_S) -> None:
        """End the workers that have been idle for `idle_s` seconds."""
        if not self._is_asking and time.monotonic() - self._used_s >= idle_s:
            self._end()
        if self._second:
            self._second.end_idle(idle_s)

    def try_reader(self, kind: str) -> None:
        """Read the sample of a type. Raises ReaderUnavailable if the sample cannot be read."""
        try:
            if not self._ask(SAMPLES[kind](), kind):
                raise _unavailable_error(kind, "reading the sample document gives no text")
        except Died as death:
            raise self._note_unavailable(
                kind, _unavailable_error(kind, f"reading the sample document {death.why}")
            ) from death
        except DocumentUnreadable as problem:
            raise self._note_unavailable(
                kind, _unavailable_error(kind, f"the sample document cannot be read: {problem.why}")
            ) from problem
        except ReaderUnavailable as error:
            raise self._note_unavailable(kind, error) from None
        self._proven.add(kind)
        self._unavailable.pop(kind, None)

    def _read(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        """Read a document. Raises Died or DocumentUnreadable if this document alone is to blame."""
        kind = strip_parameters(media_type)
        if kind == PDF or kind in IMAGES:
            media_type = kind + (PICTURES if self._tesseract else "")
        try:
            blocks = self._ask_twice(data, media_type)
        except Died as death:
            if death.killed:
                raise self._note_unavailable(
                    kind, _unavailable_error(kind, f"the reader {death.why}")
                ) from death
            self._require_reader(kind)
            raise
        except DocumentUnreadable:
            self._require_reader(kind)
            raise
        except ReaderUnavailable as error:
            raise self._note_unavailable(kind, error) from None
        self._proven.add(kind)
        self._unavailable.pop(kind, None)
        if media_type.endswith(PICTURES) and self._tesseract:
            return self._add_picture_text(self._tesseract, blocks, data, kind)
        return blocks

    def _add_picture_text(
        self, tesseract: Tesseract, blocks: Sequence[Block], data: bytes, kind: str
    ) -> tuple[Block, ...]:
        """Insert the recognized text of pictures at their places among the blocks."""
        read: list[Block] = []
        pictures, failed = 0, ""
        for block in blocks:
            if block.kind != "picture":
                read.append(block)
                continue
            pictures += 1
            if pictures > _MOST_PICTURES:
                failed = f"stops after {_MOST_PICTURES} pages"
                continue
            try:
                picture = data if kind in IMAGES else self._render_picture(data, block.first_line)
                read += tesseract.recognise_blocks(picture, block.first_line, self._yield_to_edits)
            except Died as death:
                if death.killed:
                    raise _unavailable_error(kind, f"recognizing text {death.why}") from death
                failed = death.why
            except DocumentUnreadable as problem:
                failed = f"fails: {problem.why}"
        if failed:
            log.warning("text recognition failed", media_type=kind, why=failed)
        if failed and not read:
            raise _recognition_error(failed)
        if pictures and not read and kind == PDF:
            raise make_no_text_error(
                "Scan the pages at a higher resolution, or add the document to `ignore`"
            )
        return tuple(read)

    def _render_picture(self, data: bytes, page: int) -> bytes:
        """Render a page of a PDF for text recognition. Raises Died or DocumentUnreadable."""
        (block,) = self._ask(data, f"{PDF}{PICTURE_OF_PAGE}{page}") or (None,)
        try:
            return base64.b64decode(block.text if block else "", validate=True)
        except ValueError as error:
            raise Died("gives an invalid reply") from error

    def _require_reader(self, kind: str) -> None:
        if kind in SAMPLES and kind not in self._proven:
            self.try_reader(kind)

    def _note_unavailable(self, kind: str, error: ReaderUnavailable) -> ReaderUnavailable:
        """Record and log why documents of a type cannot be read, once for each type, and end the
        worker."""
        self._end()
        if self._unavailable.get(kind) is None:
            log.error("documents cannot be read", media_type=kind, why=error.why, hint=error.hint)
        self._unavailable[kind] = error
        return error

    def close(self) -> None:
        self._end()
        if self._second:
            self._second.close()

    def _end(self) -> None:
        self._proven.clear()
        self._child.end()

    def _get_second(self) -> "ExtractionProcess":
        self._second = self._second or ExtractionProcess(
            self._yield_to_edits,
            self._limits,
            self._command,
            self._quarantined,
            self._on_quarantine,
            self._unavailable,
            self._tesseract,
        )
        return self._second

    def _ask_twice(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        """Send the document to the worker. If the worker dies and an earlier document may be the
        cause, send the document once more, to a new worker."""
        if self._served >= self._limits.documents_per_worker:
            self._end()
        is_worn = self._child.is_running
        try:
            return self._ask(data, media_type)
        except Died as death:
            if not (is_worn and death.again):
                raise
        return self._ask(data, media_type)

    def _ask(self, data: bytes, media_type: str) -> tuple[Block, ...]:
        try:
            process = self._child.get()
        except StartRefused as refused:
            raise _no_worker_error(refused.why) from refused
        size_mib = len(data) / (1 << 20)
        limits = self._limits
        cpu_s = limits.cpu_s + limits.cpu_s_per_mib * size_mib
        wall_s = limits.wall_s + limits.wall_s_per_mib * size_mib
        request = encode_request(data, media_type, round(cpu_s), round(wall_s) + 1)
        self._served += 1
        try:
            with memoryview(request) as unsent:
                reply = ReaderExchange(process, self._yield_to_edits, limits).run(unsent, wall_s)
            return decode_result(reply)
        except ValueError as error:
            self._end()
            raise Died("gives an invalid reply") from error
        except (DocumentUnreadable, ReaderUnavailable):
            raise
        except BaseException:
            self._end()
            raise

    def _start(self) -> Process:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(_ROOT),
            "MALLOC_ARENA_MAX": "2",  # each arena counts 64 MiB against the limit
            # No file can be created below a device, so no library finds a temporary folder.
            "TMPDIR": os.devnull,
        }
        self._served = 0
        try:
            return start_child([*self._command, str(self._limits.memory_bytes)], environment)
        except OSError as error:
            raise _no_worker_error(str(error)) from error

    def _expect_ready(self, process: Process) -> None:
        """Wait until a new worker is ready. Raises ReaderUnavailable if the worker dies first,
        because no document is at fault."""
        try:
            exchange = ReaderExchange(process, self._yield_to_edits, self._limits)
            exchange.expect_ready(self._limits.wall_s)
        except Died as death:
            raise _no_worker_error(f"starting a worker {death.why}") from death


def _quarantine_error(why: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        "the document",
        f"reading the file {why}",
        "The file is skipped until its content or the hopsyncd version changes. Repair the file,"
        " save it in another format, or add it to `ignore`",
    )


def _recognition_error(why: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        "the document",
        f"recognizing the text in the file {why}",
        "Save the file at a lower resolution or in another format, or add it to `ignore`",
    )


def _no_worker_error(why: str) -> ReaderUnavailable:
    return ReaderUnavailable(
        "Documents cannot be read",
        why,
        "Run `python -m hopsyncd.formats.sandbox.reader_worker 1073741824` to see the error",
    )


def _unavailable_error(kind: str, why: str) -> ReaderUnavailable:
    return ReaderUnavailable(
        f"Documents of the type {kind} cannot be read",
        why,
        "Run `hopsyncd doctor` to test each reader. The next scan tries again",
    )


def try_readers(
    unavailable: MutableMapping[str, ReaderUnavailable], command: Sequence[str] = WORKER
) -> None:
    """Read the sample of each type in a worker. `unavailable` receives the errors by media type."""
    with closing(ExtractionProcess(command=command, unavailable=unavailable)) as process:
        for kind in SAMPLES:
            with suppress(ReaderUnavailable):  # the error is logged, and recorded in `unavailable`
                process.try_reader(kind)


def try_readers_soon(unavailable: MutableMapping[str, ReaderUnavailable]) -> None:
    """On another thread, import the readers of text, and run `try_readers` after a short wait, to
    avoid delaying the daemon's start."""

    def load_and_try() -> None:
        try:
            load_text_readers()
        except Exception:  # Extraction reports which types cannot be read.
            log.exception("a reader of text cannot be loaded")
        time.sleep(_TRIAL_AFTER_S)
        try_readers(unavailable)

    threading.Thread(target=load_and_try, name="readers", daemon=True).start()
