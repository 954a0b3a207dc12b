"""Notifies open pages of new versions, as server-sent events.

While a page listens, the daemon is asked for its version: several times a second at first and after
a change, later twice a second. A hidden page does not listen. When a page listens again, it names
the version that it knows, and is notified of the changes since that version. A page is notified of
a new version only if documents that its user may see have changed, and only of these documents.
"""

import asyncio
import json
import math
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hopsyncd.client import Client, RequestFailed
from hopsyncd.display import format_document_name
from hopsyncd.errors import REPORTABLE

_POLL_S = 0.15
_IDLE_POLL_S = 0.5
_ACTIVE_S = 60.0  # how long to poll often after a page connects or a version appears
_BEAT_S = 15.0  # the interval of empty lines, which reveal a lost connection
_MOST_LISTENERS = 32
_MOST_NAMED = 20
_RETRY_MS = 1500
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_VERSION = re.compile(r"[0-9]{1,18}")

Event = Mapping[str, Any]


def read_newest_version(client: Client) -> int:
    return client.health()["version"]


def _format_event(kind: str, version: int, event: Event) -> bytes:
    return f"event: {kind}\nid: {version}\ndata: {json.dumps(event)}\n\n".encode()


class SharedVersion:
    """Returns the number of the newest version. Asks the daemon at most once per half polling
    interval, so that the pages of all users share the requests.

    Thread-safe.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._last = (0, -math.inf)  # the version, and the time.monotonic() of its request

    def __call__(self) -> int:
        with self._lock:
            version, asked_s = self._last
            if time.monotonic() - asked_s > _POLL_S / 2:
                version = read_newest_version(self._client)
                self._last = version, time.monotonic()
            return version


class VersionHub:
    """Asks the daemon for new versions, on behalf of all open pages of a user.

    version: returns the number of the newest version. The default is `read_newest_version`.
    """

    def __init__(
        self,
        client: Client,
        is_stopping: Callable[[], bool] = lambda: False,
        version: Callable[[], int] | None = None,
    ) -> None:
        self._client = client
        self._is_stopping = is_stopping
        self._version = version or partial(read_newest_version, client)
        self._listeners: dict[asyncio.Queue[Event | None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)
        self._active_s = -math.inf

    async def stream_events(self, request: Request) -> Response:
        """Return the stream of events for one page.

        The header `Last-Event-ID` of a browser that reconnects, or else the field `since`, has the
        version that the page knows.
        """
        last_seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
        since = int(last_seen) if _VERSION.fullmatch(last_seen) else None
        lines = self._stream_lines(since)
        return StreamingResponse(lines, media_type="text/event-stream", headers=_HEADERS)

    async def _stream_lines(self, since: int | None) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        if len(self._listeners) >= _MOST_LISTENERS:
            oldest = next(iter(self._listeners))
            del self._listeners[oldest]
            oldest.put_nowait(None)
        self._listeners[queue] = None
        self._active_s = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            yield f"retry: {_RETRY_MS}\n\n".encode()
            try:
                version = await self._run(self._version)
                yield _format_event("begin", version, {"version": version})
                if since not in (None, version):
                    event = await self._run(partial(self._list_changes, since, version))
                    if event:
                        yield _format_event("version", version, event)
            except REPORTABLE:  # the browser connects again
                return
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _BEAT_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is None:
                    return
                yield _format_event("version", event["version"], event)
        finally:
            self._listeners.pop(queue, None)

    async def _poll(self) -> None:
        """Ask the daemon repeatedly, until no page listens or the program or the daemon ends."""
        last_seen: int | None = None
        while self._listeners:
            try:
                version = await self._run(self._version)
                event = None
                if last_seen is not None and version != last_seen:
                    event = await self._run(partial(self._list_changes, last_seen, version))
            except REPORTABLE:
                break
            if version != last_seen:
                self._active_s = time.monotonic()
            last_seen = version
            if event:
                for queue in self._listeners:
                    queue.put_nowait(event)
            if self._is_stopping():
                break
            is_active = time.monotonic() - self._active_s < _ACTIVE_S
            await asyncio.sleep(_POLL_S if is_active else _IDLE_POLL_S)
        for queue in self._listeners:
            queue.put_nowait(None)

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await run_sync(work, limiter=self._thread)

    def _list_changes(self, old: int, new: int) -> Event | None:
        """List up to `_MOST_NAMED` documents that differ between two versions.

        The list is empty if `old` is 0 or a version does not exist any more. Returns None if the
        user may see no document that differs.
        """
        noticed_ms = int(time.time() * 1000)
        if not old:
            return {"version": new, "noticed_ms": noticed_ms, "documents": []}
        try:
            changes = self._client.diff(str(old), str(new), _MOST_NAMED, graph=False)
        except RequestFailed:  # a version was garbage collected meanwhile
            return {"version": new, "noticed_ms": noticed_ms, "documents": []}
        if not any(changes["counts"]["documents"].values()):
            return None
        documents = [
            {
                "key": f"{item['source']}/{item['document']}",
                "name": format_document_name(item).rpartition("/")[2],
                "what": change,
            }
            for change, listed in (
                ("added", changes["documents"]["added"]),
                ("changed", changes["documents"]["changed"]),
                ("renamed", changes["documents"]["renamed"]),
                ("removed", changes["documents"]["removed"]),
            )
            for item in listed
        ]
        return {"version": new, "noticed_ms": noticed_ms, "documents": documents[:_MOST_NAMED]}
