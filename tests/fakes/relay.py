"""A relay before a server: while it is `stuck` it stays up, and forwards nothing."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path


class Relay:
    """Listens on a port of this machine, and forwards to a Unix socket."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.stuck = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=(source, target), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while True:
                content = source.recv(65536)
                while self.stuck:
                    time.sleep(0.01)
                if not content:
                    break
                target.sendall(content)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.stuck = False
        self._listening.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
