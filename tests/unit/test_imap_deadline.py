"""An IMAP server that never comes to an end, a little at a time."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from connectors.errors import SourceUnavailable
from connectors.mail.imap import ImapConnector
from connectors.mail.settings import ImapSettings
from connectors.protocol import Item

ANSWERS = {
    b"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\n",
    b"LIST": b'* LIST () "/" INBOX\r\n',
    b"EXAMINE": b"* 1 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n",
    b"UID": b"* 1 FETCH (FLAGS ())\r\n",
}


def drip(listener: socket.socket, slowly: bytes) -> None:
    """Let one client in; the answer to that command has one more line every now and then."""
    client, _ = listener.accept()
    with client, client.makefile("rb") as lines, suppress(OSError):
        client.sendall(b"* OK [CAPABILITY IMAP4rev1] ready\r\n")
        for line in lines:
            tag, command = line.split()[:2]
            client.sendall(ANSWERS.get(command, b""))
            while command == slowly:
                client.sendall(ANSWERS[command])
                time.sleep(0.02)
            client.sendall(tag + b" OK done\r\n")


def list_all(connector: ImapConnector) -> None:
    list(connector.discover(None))


def fetch_one(connector: ImapConnector) -> None:
    connector.fetch(Item("INBOX/1", "7-1", 10))


@pytest.mark.parametrize(("slowly", "ask"), [(b"LIST", list_all), (b"UID", fetch_one)])
def test_a_listing_or_a_message_that_drips_is_given_up(
    monkeypatch: pytest.MonkeyPatch, slowly: bytes, ask: Callable[[ImapConnector], None]
) -> None:
    monkeypatch.setenv("DRIP_PASSWORD", "x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener, slowly), daemon=True)
        server.start()
        port = listener.getsockname()[1]
        settings = ImapSettings("127.0.0.1", "ann", "DRIP_PASSWORD", port, tls="off", limit_s=0.5)
        began_s = time.monotonic()
        with pytest.raises(SourceUnavailable, match=r"it took longer than 0\.5 s"):
            ask(ImapConnector(settings))
        assert time.monotonic() - began_s < 60
        server.join(60)
        assert not server.is_alive(), "the connection was cut"
