"""The address for other machines: what makes it safe, the certificate, the proxy in front."""

import asyncio
import os
import ssl
import time
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from hopsyncd.api import tls
from hopsyncd.api.access_guard import OwnNames
from hopsyncd.api.proxy import BehindProxy
from hopsyncd.api.tls import Handshakes, ServerTls, TlsStart, load_certificate
from hopsyncd.config.configuration import Config, check_config
from hopsyncd.doctor.examine import check_certificate
from hopsyncd.errors import ConfigError, SocketRefused
from tests.fakes.certificates import Authority

FILES = 'tls_cert = "c.pem"\ntls_key = "k.pem"'


def access(text: str) -> Config:
    return check_config(Path("/home/ann/config.toml"), f"[access]\n{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        'listen = "127.0.0.1:7717"',
        'listen = "[::1]:7717"',
        f'listen = "0.0.0.0:7717"\n{FILES}',
        f'{FILES}\nlisten = "192.0.2.1:7717"',
        'listen = "[::]:7717"\nbehind_proxy = ["192.0.2.7"]',
    ],
)
def test_an_address_may_be_listened_on_where_nobody_can_read_along(text: str) -> None:
    assert access(text).access.listen


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('listen = "0.0.0.0:7717"', "could reach 0.0.0.0 without TLS"),
        ('listen = "[::]:7717"\nhosts = ["a.example"]', "could reach :: without TLS"),
        ('listen = "0.0.0.0:7717"\ntls_cert = "c.pem"', "`tls_cert` is set, but not `tls_key`"),
        ('listen = "127.0.0.1:7717"\ntls_key = "k.pem"', "`tls_key` is set, but not `tls_cert`"),
        ('tls_key = "k.pem"', "`tls_key` is set, but not `tls_cert`"),
        ('listen = "7717"', "an address and a port"),
        ('listen = "0.0.0.0:7717"\nbehind_proxy = ["proxy"]', "does not appear to be"),
        ('hosts = ["https://a.example"]', "without a scheme"),
    ],
)
def test_an_unsafe_address_is_refused_with_the_remedy(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="(?s)access.*" + why) as raised:
        access(text)
    if "without TLS" in why:
        assert "tls_cert and tls_key, or behind_proxy" in str(raised.value)


def test_the_former_name_of_listen_is_understood() -> None:
    assert access('tcp = "127.0.0.1:7717"').access.listen == "127.0.0.1:7717"
    with pytest.raises(ConfigError, match="without TLS"):
        access('tcp = "0.0.0.0:7717"')
    with pytest.raises(ConfigError, match="unknown key"):
        access('tcp = "127.0.0.1:7717"\nlisten = "127.0.0.1:7718"')


def test_a_certificate_says_its_names_and_its_end(tmp_path: Path) -> None:
    names = ("notes.example.org", "*.intern.example.org", "192.0.2.1", "2001:db8::1")
    made = Authority(tmp_path).issue(names, timedelta(days=10))
    context, certificate = load_certificate(*made)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert abs(certificate.expires_s - time.time() - 10 * 86400) < 3600
    for name in ("notes.example.org", "a.intern.example.org", "192.0.2.1", "[2001:db8::1]"):
        assert certificate.is_for(name)
    for name in ("intern.example.org", "a.b.intern.example.org", "evil.example", "org", ""):
        assert not certificate.is_for(name)
    # One that has expired is read too, so that its end can be told.
    _, expired = load_certificate(*Authority(tmp_path).issue(valid=timedelta(days=-1)))
    assert expired.expires_s < time.time()


def test_unusable_certificate_files_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue()
    _, others_key = authority.issue(file_name="other")
    with pytest.raises(SocketRefused, match="belongs to another certificate"):
        load_certificate(cert, others_key)
    with pytest.raises(SocketRefused, match="not in PEM format"):
        load_certificate(key, key)
    with pytest.raises(SocketRefused, match=r"Cannot read .*missing.*no such file"):
        load_certificate(tmp_path / "missing", key)
    key.chmod(0o640)
    with pytest.raises(SocketRefused, match=f"other users can read the key file.*chmod 600 {key}"):
        load_certificate(cert, key)


def test_a_key_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = Authority(tmp_path).issue()
    if os.geteuid() == 0:
        os.chown(key, 65534, -1)
    else:
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.raises(
        SocketRefused, match=f"another user owns the key file.*chown {os.geteuid()} {key}"
    ):
        load_certificate(cert, key)


def test_changed_files_are_used_and_bad_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_LOOK_EVERY_S", 0.0)
    authority = Authority(tmp_path)
    cert, key = authority.issue(("a.example",))
    server = ServerTls(cert, key)
    first = server.context
    assert server.context is first
    authority.issue(("b.example",))
    assert server.context is not first
    assert server.certificate.is_for("b.example") and not server.certificate.is_for("a.example")
    second, good_key = server.context, key.read_bytes()
    key.write_bytes(b"half a k")
    assert server.context is second
    assert server.problem and "not in PEM format" in server.problem
    key.unlink()
    assert server.context is second
    key.touch(0o600)
    key.write_bytes(good_key)
    assert server.context is not second
    assert server.problem is None


def test_the_names_of_the_certificate_are_the_daemons(tmp_path: Path) -> None:
    server = ServerTls(*Authority(tmp_path).issue(("notes.example.org",)))
    names = OwnNames(["alias.example"], server)
    for name in ("localhost", "127.0.0.1", "alias.example", "notes.example.org"):
        assert names(name)
    assert not names("evil.example")
    assert not OwnNames([])("notes.example.org")


def test_the_doctor_shows_when_the_certificate_expires(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    def level(valid: timedelta) -> tuple[str, str]:
        cert, key = authority.issue(valid=valid)
        config = access(f'listen = "0.0.0.0:1"\ntls_cert = "{cert}"\ntls_key = "{key}"')
        (found,) = check_certificate(config)
        return found.level, found.detail

    assert level(timedelta(days=60))[0] == "ok"
    assert level(timedelta(days=5))[0] == "warn"
    told, detail = level(timedelta(days=-2))
    assert told == "fail" and "has expired" in detail


async def _address(scope: Scope, receive: Receive, send: Send) -> None:
    client = scope["client"][0] if scope["client"] else "socket"
    await PlainTextResponse(f"{client} {scope['scheme']}")(scope, receive, send)


@pytest.mark.parametrize(
    ("peer", "headers", "answer"),
    [
        ("10.0.0.2", {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.5"}, "192.0.2.5"),
        # Whatever a client makes up stands to the left of what the proxy adds.
        (
            "10.0.0.2",
            {"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1, 192.0.2.5"},
            "192.0.2.5",
        ),
        ("10.0.0.2", {"X-Forwarded-For": "192.0.2.5"}, "does not say that its client uses https"),
        ("10.0.0.2", {"X-Forwarded-Proto": "http"}, "does not say that its client uses https"),
        ("10.0.0.2", {"X-Forwarded-Proto": "https"}, "does not say who its client is"),
        ("10.0.1.2", {"X-Forwarded-Proto": "https"}, "did not come through the proxy"),
        ("127.0.0.1", {"X-Forwarded-Proto": "https"}, "did not come through the proxy"),
    ],
)
def test_only_the_proxy_says_who_asks(peer: str, headers: dict[str, str], answer: str) -> None:
    client = TestClient(BehindProxy(_address, ["10.0.0.0/24"]), client=(peer, 1))
    response = client.get("/", headers=headers)
    assert answer in response.text
    assert response.status_code == (200 if answer == "192.0.2.5" else 403)


class _Transport(asyncio.Transport):
    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self.aborted = False

    def pause_reading(self) -> None:
        """There is nothing to read."""

    def abort(self) -> None:
        self.aborted = True


def test_too_many_unfinished_handshakes_end_those_of_the_busiest_address(tmp_path: Path) -> None:
    server = ServerTls(*Authority(tmp_path).issue())
    addresses = ["192.0.2.1", "192.0.2.9", "192.0.2.9", "192.0.2.9", "192.0.2.2"]

    async def open_all() -> list[bool]:
        handshakes, opened = Handshakes(limit=3), [_Transport(address) for address in addresses]
        for transport in opened:
            start = TlsStart(server, handshakes, 60, asyncio.Protocol)
            start.connection_made(transport)
        return [one.aborted for one in opened]

    assert asyncio.run(open_all()) == [False, True, True, False, False]
