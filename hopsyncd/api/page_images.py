"""Renders pages of PDFs as pictures in the reader process, and caches up to 32 MiB of pictures."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from hopsyncd.api.file_text import no_file_error, read_indexed_file
from hopsyncd.api.passages import read_passage
from hopsyncd.api.requests import PageImageRequest
from hopsyncd.child_process import IdleTimer
from hopsyncd.config.configuration import Config
from hopsyncd.errors import Busy, DocumentUnreadable, NotFound
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.media_types import PDF
from hopsyncd.formats.sandbox.messages import Limits
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.responses.images import PageImageAnswer
from store.contract import Connection
from store.reads import read_content_hash

_LIMITS = Limits(cpu_s=5.0, cpu_s_per_mib=0.5, wall_s=15.0, wall_s_per_mib=1.0)
_MOST_KEPT_BYTES = 32 << 20
_PATIENCE_S = 10.0  # how long a request waits for its turn.
_IDLE_S = 60.0  # the process ends after this time without work


@dataclass(frozen=True, slots=True)
class WantedPage:
    """A page to draw: the hash of the document's content, and the text to highlight on the page."""

    version: int
    source: str
    document: str
    content: bytes
    page: int
    last: int
    text: str


def find_page(
    connection: Connection, head: Snapshot | None, request: PageImageRequest
) -> WantedPage:
    """Find the page of a PDF that a request means. Raises NotFound or BadRequest."""
    passage, places = read_passage(connection, head, request.id)
    assert head is not None
    place = next((place for place in places if place.media_type == PDF), None)
    content = read_content_hash(connection, place.row) if place else None
    if place is None or content is None:
        raise NotFound(
            "Cannot show the page",
            "the passage is not in a PDF",
            "GET /v1/passages returns the text",
        )
    page = request.page or place.first_line
    return WantedPage(
        head.version.id, place.source, place.document, content, page, place.last_line, passage.text
    )


class PageImages:
    """Renders pages one at a time, and caches the last pages. Thread-safe."""

    def __init__(self) -> None:
        self._process = ExtractionProcess(limits=_LIMITS)
        self._pages = OrderedDict[tuple[bytes, int, str], Block]()
        self._lock = threading.Lock()
        self._idle = IdleTimer(_IDLE_S, self._end_if_idle)

    def draw(self, config: Config, page: WantedPage) -> PageImageAnswer:
        """Draw a page. Raises NotFound if the file has changed or cannot be read, and Busy if the
        pages before this page take more than 10 s."""
        # The file is read even if the picture is cached, so that a changed file is not shown.
        data = read_indexed_file(config, page.source, page.document, page.content)
        key = (page.content, page.page, page.text)
        if not self._lock.acquire(timeout=_PATIENCE_S):
            raise Busy(
                "Cannot show the page", "other pages are being drawn", "Try again in a moment"
            )
        try:
            block = self._pages.get(key) or self._draw(data, page)
            self._keep(key, block)
        finally:
            self._lock.release()
        values: dict[str, list[str]] = {}
        for name, value in block.properties:
            values.setdefault(name, []).append(value)
        width, height = map(int, values["size"][0].split())
        return {
            "version": page.version,
            "source": page.source,
            "document": page.document,
            "page": page.page,
            "last": page.last,
            "pages": int(values["pages"][0]),
            "width": width,
            "height": height,
            "boxes": [[*map(int, box.split())] for box in values.get("box", ())],
            "picture": block.text,
        }

    def _draw(self, data: bytes, page: WantedPage) -> Block:
        try:
            return self._process.preview_page(data, page.page, page.text)
        except DocumentUnreadable as problem:
            raise no_file_error(page.source, page.document, problem.why) from problem
        finally:
            self._idle.restart()

    def _keep(self, key: tuple[bytes, int, str], block: Block) -> None:
        self._pages[key] = block
        self._pages.move_to_end(key)
        while sum(len(image.text) for image in self._pages.values()) > _MOST_KEPT_BYTES:
            self._pages.popitem(last=False)

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._idle.has_expired:
                self._process.end_idle(_IDLE_S)
