"""Serving an application on a bound socket until a signal ends it."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from hopsyncd.config_access import LimitsConfig
from hopsyncd.serve.connection import Connection, Connections, Patience
from hopsyncd.serve.stats import Load
from hopsyncd.supervise import Supervisor

_STOP_REQUESTS_S = 3


class _Server(uvicorn.Server):
    """Ends the work in hand before uvicorn waits for the requests that wait for it."""

    def __init__(
        self, config: uvicorn.Config, end_work: Callable[[], None], supervisor: Supervisor
    ) -> None:
        super().__init__(config)
        self._end_work = end_work
        self._supervisor = supervisor

    async def on_tick(self, counter: int) -> bool:
        self._supervisor.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._supervisor.stopping()
        await asyncio.to_thread(self._end_work)
        await super().shutdown(sockets)


def serve(
    app: ASGIApp,
    listeners: Sequence[socket.socket],
    limits: LimitsConfig,
    load: Load,
    end_work: Callable[[], None],
    supervisor: Supervisor,
) -> None:
    """Serve until SIGTERM or SIGINT; `end_work` is then called off the event loop, once.

    The peer of each connection is in the state of its requests.
    """
    # It warns of every request that is no HTTP: a flood of them would be one of lines.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    connection = partial(
        Connection,
        connections=Connections(limits.connections, load),
        patience=Patience(limits.header_s, limits.body_s),
    )
    config = uvicorn.Config(
        app,
        http=connection,  # type: ignore[arg-type]  # it makes one, as the class would
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_REQUESTS_S,
    )
    server = _Server(config, end_work, supervisor)

    def end(_: int, __: FrameType | None) -> None:
        """Before uvicorn listens to signals; and after its shutdown, when it raises them again."""
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    server.run(sockets=list(listeners))
