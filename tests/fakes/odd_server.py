"""A server on a Unix socket that answers every request with the same bytes, at its own pace."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def http(body: bytes, media_type: str = "application/json", status: str = "200 OK") -> bytes:
    """A whole HTTP answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextmanager
def odd_server(
    path: Path, sent: bytes, *, pause_s: float = 0.0, filler: bytes = b""
) -> Iterator[None]:
    """With a pause, `sent` goes out byte by byte. The filler follows it 4,096 times."""
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            _receive(connection)
            for part in [bytes([one]) for one in sent] if pause_s else [sent]:
                connection.sendall(part)
                if ended.wait(pause_s):
                    return
            for _ in range(4096 if filler else 0):
                connection.sendall(filler)

    def serve() -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                connection.settimeout(10)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0.1)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(10)
            path.unlink()


def _receive(connection: socket.socket) -> None:
    """Read a request to its end: a client that still sends would find the connection broken."""
    received = bytearray()
    while b"\r\n\r\n" not in received:
        if not (part := connection.recv(1 << 16)):
            return
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    while len(body) < int(length or 0):
        if not (part := connection.recv(1 << 16)):
            return
        body += part
