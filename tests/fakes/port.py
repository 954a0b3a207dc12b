"""A port of this machine for a server that must know its number before it binds it."""

import random
import socket
from contextlib import suppress

# Below those that the system gives to whoever asks for any: none of them is taken by chance between
# two uses. No port is given twice.
_LEFT = random.sample(range(20_000, 32_000), 12_000)


def free_port() -> int:
    """One that nobody has bound on loopback."""
    while True:
        port = _LEFT.pop()
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
