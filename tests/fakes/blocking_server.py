"""`python -m tests.fakes.blocking_server SOCKET`: each request blocks the event loop for 3 s."""

import socket
import sys
import time

from starlette.types import Receive, Scope, Send

from hopsyncd.config_access import LimitsConfig
from hopsyncd.serve.server import serve
from hopsyncd.serve.stats import Load
from hopsyncd.supervise import Supervisor

BLOCKS_S = 3.0


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    time.sleep(BLOCKS_S)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        serve(app, [listener], LimitsConfig(), Load(), lambda: None, Supervisor())
