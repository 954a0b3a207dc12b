"""An IMAP server that never comes to an end, a little at a time."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from connectors.errors import SourceUnavailable
from connectors.mail.imap import ImapConnector
from connectors.mail.settings import ImapSettings


def drip(listener: socket.socket) -> None:
    """Let one client in, and answer its LIST with one more line every now and then."""
    client, _ = listener.accept()
    with client, client.makefile("rb") as lines, suppress(OSError):
        client.sendall(b"* OK [CAPABILITY IMAP4rev1] ready\r\n")
        for line in lines:
            tag, command = line.split()[:2]
            while command == b"LIST":
                client.sendall(b'* LIST () "/" more\r\n')
                time.sleep(0.02)
            client.sendall(b"* CAPABILITY IMAP4rev1\r\n" * (command == b"CAPABILITY"))
            client.sendall(tag + b" OK done\r\n")


def test_a_listing_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIP_PASSWORD", "x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,), daemon=True)
        server.start()
        port = listener.getsockname()[1]
        settings = ImapSettings(
            "127.0.0.1", "ann", "DRIP_PASSWORD", port, tls="off", listing_limit_s=0.5
        )
        began_s = time.monotonic()
        with pytest.raises(SourceUnavailable, match=r"listing took longer than 0\.5 s"):
            list(ImapConnector(settings).discover(None))
        assert time.monotonic() - began_s < 10
        server.join(10)
        assert not server.is_alive(), "the connection was cut"
