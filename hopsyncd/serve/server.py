"""Serving an application on a bound socket until a signal ends it."""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.applications import Starlette

_STOP_REQUESTS_S = 3


class _Server(uvicorn.Server):
    """Ends the work in hand before uvicorn waits for the requests that wait for it."""

    def __init__(self, config: uvicorn.Config, end_work: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_work = end_work

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self._end_work)
        await super().shutdown(sockets)


def serve(app: Starlette, listener: socket.socket, end_work: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; `end_work` is then called off the event loop, once."""

    def stay(_: int, __: FrameType | None) -> None:
        """uvicorn raises the signal again after its own shutdown; ours follows."""

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stay)
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_REQUESTS_S,
    )
    _Server(config, end_work).run(sockets=[listener])
