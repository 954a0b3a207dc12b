"""An IMAP server that never comes to an end, a little at a time or all at once."""

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from connectors.mail.imap import ImapConnector
from connectors.protocol import Item, SourceUnavailable
from connectors.settings import ImapSettings

ANSWERS = {
    b"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\n",
    b"LIST": b'* LIST () "/" INBOX\r\n',
    b"EXAMINE": b"* 1 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n",
    b"UID": b"* 1 FETCH (FLAGS ())\r\n",
}


def serve(listener: socket.socket, endless: bytes, more: bytes, pause_s: float) -> None:
    """Let one client in; the answer to that command has more and more."""
    client, _ = listener.accept()
    with client, client.makefile("rb") as lines, suppress(OSError):
        client.sendall(b"* OK [CAPABILITY IMAP4rev1] ready\r\n")
        for line in lines:
            tag, command = line.split()[:2]
            client.sendall(ANSWERS.get(command, b""))
            while command == endless:
                client.sendall(more)
                time.sleep(pause_s)
            client.sendall(tag + b" OK done\r\n")


def list_all(connector: ImapConnector) -> None:
    list(connector.discover(None))


def fetch_one(connector: ImapConnector) -> None:
    connector.fetch(Item("INBOX/1", "7-1"))


@pytest.mark.parametrize(("slowly", "ask"), [(b"LIST", list_all), (b"UID", fetch_one)])
def test_a_listing_or_a_message_that_drips_is_given_up(
    monkeypatch: pytest.MonkeyPatch, slowly: bytes, ask: Callable[[ImapConnector], None]
) -> None:
    monkeypatch.setenv("DRIP_PASSWORD", "x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        drip = (listener, slowly, ANSWERS[slowly], 0.02)
        server = threading.Thread(target=serve, args=drip, daemon=True)
        server.start()
        port = listener.getsockname()[1]
        settings = ImapSettings("127.0.0.1", "ann", "DRIP_PASSWORD", port, tls="off", limit_s=0.5)
        began_s = time.monotonic()
        with pytest.raises(SourceUnavailable, match=r"the server took longer than 0\.5 s"):
            ask(ImapConnector(settings))
        assert time.monotonic() - began_s < 60
        server.join(60)
        assert not server.is_alive(), "the connection was cut"


@pytest.mark.parametrize(
    ("endless", "more", "ask"),
    [
        (b"LIST", b'* LIST () "/" ' + b"x" * 1000 + b"\r\n", list_all),
        (b"UID", b"* 1 FETCH (BODY[] {10000}\r\n" + bytes(10_000) + b")\r\n", fetch_one),
    ],
)
def test_an_endless_response_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
    endless: bytes,
    more: bytes,
    ask: Callable[[ImapConnector], None],
) -> None:
    monkeypatch.setenv("FLOOD_PASSWORD", "x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flood = (listener, endless, more, 0.0)
        for _ in range(2):  # a fetch tries twice
            threading.Thread(target=serve, args=flood, daemon=True).start()
        port = listener.getsockname()[1]
        settings = ImapSettings(
            "127.0.0.1", "ann", "FLOOD_PASSWORD", port, tls="off", max_bytes=100_000, limit_s=60.0
        )
        tracemalloc.start()
        try:
            with pytest.raises(SourceUnavailable, match="exceeds 4,294,304 bytes"):
                ask(ImapConnector(settings))
            assert tracemalloc.get_traced_memory()[1] < 40 << 20
        finally:
            tracemalloc.stop()
