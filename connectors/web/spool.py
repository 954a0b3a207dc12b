"""What a listing has read already, on disk, so that nothing is asked for twice."""

import json
import tempfile
from typing import BinaryIO

from connectors.protocol import Fetched

MAX_BYTES = 64 * 1024 * 1024


class Spool:
    """Pages by address in a file without a name. What does not fit any more is not kept."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._places: dict[str, tuple[int, int, int, str]] = {}

    def put(self, url: str, page: Fetched) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives until `clear`
        head = json.dumps([page.media_type, page.title, page.links, dict(page.origin)]).encode()
        start = self._file.seek(0, 2)
        if start + len(head) + len(page.data) <= MAX_BYTES:
            self._file.write(head + page.data)
            self._places[url] = (start, len(head), len(page.data), page.revision)

    def take(self, url: str, revision: str) -> Fetched | None:
        """The page with this revision, once."""
        start, head_bytes, data_bytes, kept = self._places.pop(url, (0, 0, 0, ""))
        if self._file is None or not kept or kept != revision:
            return None
        self._file.seek(start)
        media_type, title, links, origin = json.loads(self._file.read(head_bytes))
        data = self._file.read(data_bytes)
        return Fetched(data, revision, media_type, title, tuple(links), origin)

    def clear(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._places = None, {}
