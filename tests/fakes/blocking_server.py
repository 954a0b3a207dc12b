"""`python -m tests.fakes.blocking_server SOCKET`: each request blocks the event loop for 3 s.

With `stop` after it, SIGTERM comes when the server is about to listen; with `drop`, before, in a
finalizer.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator

from starlette.types import Receive, Scope, Send

from hopsyncd.api.metrics import Load
from hopsyncd.api.server import Listeners, serve
from hopsyncd.api.supervisor import Supervisor
from hopsyncd.config.values import LimitsConfig

BLOCKS_S = 3.0


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    time.sleep(BLOCKS_S)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class _Stopped(list[socket.socket]):
    def __iter__(self) -> Iterator[socket.socket]:
        os.kill(os.getpid(), signal.SIGTERM)
        return super().__iter__()


class _Dropped:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    supervisor = Supervisor()
    signal.signal(signal.SIGTERM, supervisor.end)
    if sys.argv[2:] == ["drop"]:
        _Dropped()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        listeners = _Stopped([listener]) if sys.argv[2:] == ["stop"] else [listener]
        serve(
            app,
            Listeners(listeners),
            LimitsConfig(),
            Load(),
            lambda: None,
            supervisor,
            lambda: "blocking",
        )
