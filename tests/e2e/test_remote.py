"""A daemon for other machines: three users over TLS on loopback, and who tries to get in."""

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import pytest

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.api.endpoints import Endpoint
from hopsyncd.api.failed_tokens import FREE
from hopsyncd.api.tokens import RIGHTS, Role
from tests.e2e.daemon import DEADLINE_S, GC_LATER, SMALL, Place, new_place, source
from tests.e2e.test_access import CANARY, CLOSED, OPEN, QUESTION, SAMPLES, new_token
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port

ROLES: tuple[Role, ...] = ("metrics", "read", "write", "admin", "owner")
Headers = dict[str, str]


class Server:
    """A daemon that listens over TLS on a loopback address, with a token for each role.

    `settings`: further lines of a source, by its name.
    """

    def __init__(
        self,
        place: Place,
        names: tuple[str, ...] = ("open", "closed"),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.place = place
        place.home.mkdir(exist_ok=True)
        self.authority = Authority(place.base)
        self.cert, self.key = self.authority.issue()
        self.port = free_port()
        for name, files in (("open", OPEN), ("closed", CLOSED)):
            for path, text in files.items():
                place.write(f"{name}/{path}", text)
        access = (
            f'[access]\nlisten = "127.0.0.1:{self.port}"\n'
            f'tls_cert = "{self.cert}"\ntls_key = "{self.key}"\n'
            f'[mcp]\ninbox = "{place.base}/inbox"\n'
        )
        (place.base / "inbox").mkdir()
        sources = [source(name, place.notes / name, settings.get(name, "")) for name in names]
        place.configure("".join(sources) + access + GC_LATER)
        place.start()
        place.sync()
        self.tokens = {role: new_token(place, role) for role in ROLES}

    def connection(
        self, context: ssl.SSLContext | None = None, peer: str = "127.0.0.1"
    ) -> HTTPSConnection:
        """A connection from the address `peer`, which trusts the server's authority."""
        trusting = context or ssl.create_default_context(cafile=self.authority.file)
        return HTTPSConnection(
            "localhost", self.port, timeout=DEADLINE_S, context=trusting, source_address=(peer, 0)
        )

    def ask(
        self,
        operation: str,
        token: str | None,
        headers: Headers | None = None,
        path: str = "",
        peer: str = "127.0.0.1",
    ) -> tuple[int, str, Headers]:
        """The status, the body and the headers of the answer to a sample request."""
        method, sample_path, body = SAMPLES[operation]
        return self.send(method, path or sample_path, body, token, headers, peer)

    def send(
        self,
        method: str,
        path: str,
        body: object,
        token: str | None,
        headers: Headers | None = None,
        peer: str = "127.0.0.1",
    ) -> tuple[int, str, Headers]:
        """The status, the body and the headers of the answer to any request."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        with closing(self.connection(peer=peer)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {**sent, **(headers or {})})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read().decode(), found

    def stored_tokens(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._file.read_text())
        return found

    def store(self, tokens: list[dict[str, Any]]) -> None:
        replaced = self._file.with_name("replaced")
        replaced.touch(0o600)
        replaced.write_text(json.dumps(tokens))
        replaced.replace(self._file)

    @property
    def _file(self) -> Path:
        return self.place.home / "data/tokens.json"

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.place.log.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with new_place(SMALL) as place:
        yield Server(place)


def _may(endpoint: Endpoint, role: Role) -> bool:
    if endpoint.operation == "backup":  # without access.backup_dir
        return role == "owner"
    return endpoint.right in RIGHTS[role]


def test_every_endpoint_answers_the_roles_that_have_its_right() -> None:
    assert set(ROLES) == set(get_args(Role))
    with new_place(SMALL) as place:
        server = Server(place)
        _, found, _ = server.ask("documents", server.tokens["owner"])
        assert json.loads(found)["documents"]
        query = json.loads(server.ask("query", server.tokens["owner"])[1])
        ids = [passage["id"] for passage in query["passages"]][:2]
        for role in ROLES:
            for endpoint in ENDPOINTS:
                operation = endpoint.operation
                path = SAMPLES[operation][1].format(*ids)
                status, text, _ = server.ask(operation, server.tokens[role], path=path)
                assert status != 401, (role, operation, text)
                assert (status != 403) is _may(endpoint, role), (role, operation, text)
                assert status < 500, (role, operation, text)
                if operation == "remove" and status == 200:
                    place.post("/v1/reload", {})  # the source is back for the next role
                    place.sync()


def test_expired_revoked_wrong_and_absent_tokens_open_nothing(server: Server) -> None:
    texts = {name: new_token(server.place, "read", "--group", name) for name in ("old", "gone")}
    assert [server.ask("status", text)[0] for text in texts.values()] == [200, 200]
    stored = server.stored_tokens()
    for token in stored:
        if token["groups"] == ["old"]:
            token["expires_s"] = int(time.time()) - 1
    server.store(stored)
    gone = next(token["id"] for token in stored if token["groups"] == ["gone"])
    assert server.place.run("token", "revoke", gone).returncode == 0
    for text, why in (
        (texts["old"], "the token has expired"),
        (texts["gone"], "has no such token"),
        (None, "the request has no token"),
    ):
        status, body, headers = server.ask("status", text)
        assert status == 401 and headers["www-authenticate"] == "Bearer"
        assert why in json.loads(body)["error"]["message"]
        assert "documents" not in body
    listed = server.place.printed("token", "list")["tokens"]
    assert next(token["expired"] for token in listed if token["groups"] == ["old"])
    assert not any(text.split("_", 2)[2] in json.dumps(listed) for text in texts.values())


def test_a_stolen_token_shows_its_sources_and_changes_nothing(server: Server) -> None:
    text = new_token(server.place, "read", "--source", "open")
    for operation in ("query", "documents", "sources", "status", "facets", "log", "examples"):
        status, body, _ = server.ask(operation, text)
        assert status == 200
        assert CANARY not in body.replace(QUESTION, "").replace(CANARY + '"]', "")
        assert '"closed"' not in body
    for operation in ("purge", "sync", "backup", "metrics", "reload", "watch"):
        assert server.ask(operation, text)[0] == 403
    lines = (server.place.home / "data/audit.log").read_text().splitlines()
    refused = [line for line in map(json.loads, lines) if line.get("token") == text.split("_")[1]]
    assert {line["action"] for line in refused} == {"purge", "sync", "backup", "reload", "watch"}
    assert {(line["user"], line["address"]) for line in refused} == {("read", "127.0.0.1")}
    wrong = server.place.run("token", "create", "--user", "x", "--source", "opne")
    assert wrong.returncode == 2 and "Did you mean 'open'?" in wrong.stderr


COMPARED = ("query", "queries", "ask", "documents", "document", "passage", "neighbours", "paths",
            "facets", "examples", "file")  # fmt: skip


def test_a_limited_token_gets_the_answers_of_a_daemon_without_the_other_sources(
    server: Server,
) -> None:
    limited = new_token(server.place, "read", "--source", "open")

    def told(asked: Server, text: str) -> dict[str, Any]:
        found = json.loads(asked.ask("query", text)[1])
        ids = [passage["id"] for passage in found["passages"]]
        answers = {}
        for operation in COMPARED:
            path = SAMPLES[operation][1].format(*ids)
            status, body, _ = asked.ask(operation, text, path=path)
            assert status == 200, (operation, body)
            answers[operation] = _without_state(json.loads(body))
        return answers

    with new_place(SMALL) as place:
        alone = Server(place, ("open",))
        expected = told(alone, alone.tokens["owner"])
    found = told(server, limited)
    for operation in COMPARED:
        assert found[operation] == expected[operation], operation
    assert told(server, server.tokens["read"]) != expected


def _without_state(value: Any) -> Any:
    """An answer without the numbers of versions, the times and the folders of its daemon."""
    state = ("version", "modified", "created", "ms", "timings", "origin", "indexed", "changed")
    if isinstance(value, dict):
        return {key: _without_state(one) for key, one in value.items() if key not in state}
    return [_without_state(one) for one in value] if isinstance(value, list) else value


def test_a_plaintext_connection_gets_no_response(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as plain:
        plain.sendall(
            b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            + server.tokens["owner"].encode()
            + b"\r\n\r\n"
        )
        received = b""
        with suppress(ConnectionError):
            while part := plain.recv(4096):
                received += part
    assert b"HTTP" not in received and b"documents" not in received


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(server: Server, version: ssl.TLSVersion) -> None:
    old = ssl.create_default_context(cafile=server.authority.file)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = version
    # A server that allows it agrees with this client, so it is our server that refuses.
    lax = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    lax.load_cert_chain(server.cert, server.key)
    lax.set_ciphers("ALL:@SECLEVEL=0")
    lax.minimum_version = version
    assert _agreed_version(old, lax) in ("TLSv1", "TLSv1.1")
    refused = pytest.raises((ssl.SSLError, ConnectionError))
    with closing(server.connection(old)) as connection, refused:
        connection.connect()
    with closing(server.connection()) as connection:
        connection.connect()
        assert connection.sock.version() in ("TLSv1.2", "TLSv1.3")


def _agreed_version(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """The version of TLS that both agree on, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering) * 4:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return asking.version()


def test_a_client_that_guesses_tokens_is_slowed_down_and_logged(server: Server) -> None:
    peer = "127.0.0.2"
    assert server.ask("status", server.tokens["read"], peer=peer)[0] == 200
    made = next(token for token in server.stored_tokens() if token["role"] == "owner")
    guess = f"hops_{made['id']}_{'g' * 43}"
    before = len(server.logged("a token was refused"))
    answers = [server.ask("status", guess, peer=peer) for _ in range(FREE + 12)]
    statuses = [status for status, _, _ in answers]
    assert statuses[:FREE] == [401] * FREE
    assert 429 in statuses
    slowed = next(headers for status, _, headers in answers if status == 429)
    assert 1 <= int(slowed["retry-after"]) <= 60
    # The neighbour at the same address works on.
    assert server.ask("status", server.tokens["read"], peer=peer)[0] == 200
    told = server.logged("a token was refused")[before:]
    assert len(told) == statuses.count(401)
    assert {(line["address"], line["token"]) for line in told} == {(peer, made["id"])}
    assert "ggg" not in server.place.log.read_text()


def test_a_connection_is_kept_and_used_again(server: Server) -> None:
    with closing(server.connection()) as connection:
        connection.connect()
        first = connection.sock
        for _ in range(3):
            token = {"Authorization": f"Bearer {server.tokens['read']}"}
            connection.request("GET", "/v1/status", headers=token)
            answer = connection.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["version"]
            assert connection.sock is first


def test_a_connection_stays_usable_after_a_refusal_that_came_before_the_body(
    server: Server,
) -> None:
    token = f"Bearer {server.tokens['read']}"
    with closing(server.connection()) as connection:
        connection.putrequest("POST", "/v1/sync")
        for name, value in (("Authorization", token), ("Content-Length", "2")):
            connection.putheader(name, value)
        connection.endheaders()
        with connection.getresponse() as answer:
            assert answer.status == 403 and answer.read()
        connection.send(b"{}")
        kept = connection.sock
        connection.request("GET", "/v1/status", headers={"Authorization": token})
        with connection.getresponse() as answer:
            assert answer.status == 200
        assert connection.sock is kept


def test_other_host_names_and_browsers_are_refused(server: Server) -> None:
    for headers in (
        {"Host": "evil.example"},
        {"Host": f"evil.example:{server.port}"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Referer": "https://localhost/"},
    ):
        status, body, _ = server.ask("status", server.tokens["owner"], headers, peer="127.0.0.3")
        assert status == 403 and "documents" not in body
    # Nobody but a configured proxy says for whom it asks.
    forged = {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https"}
    assert server.ask("status", "x", forged, peer="127.0.0.3")[0] == 401
    assert server.logged("a token was refused")[-1]["address"] == "127.0.0.3"


def test_a_renewed_certificate_is_used_and_open_connections_go_on() -> None:
    with new_place(SMALL) as place:
        server = Server(place, ("open",))
        token = {"Authorization": f"Bearer {server.tokens['owner']}"}
        with closing(server.connection()) as kept:
            kept.request("GET", "/v1/status", headers=token)
            listening = json.loads(kept.getresponse().read())["listening"]
            assert listening["address"] == f"127.0.0.1:{server.port}"
            before, first = listening["expires"], kept.sock
            server.authority.issue(("localhost", "notes.example.org"))

            def names() -> list[str]:
                with closing(server.connection()) as fresh:
                    fresh.connect()
                    found: Any = fresh.sock.getpeercert()
                    return [name for _, name in found["subjectAltName"]]

            place.until(lambda: "notes.example.org" in names())
            headers = {**token, "Host": "notes.example.org"}
            kept.request("GET", "/v1/status", headers=headers)
            answer = kept.getresponse()
            assert answer.status == 200
            listening = json.loads(answer.read())["listening"]
            assert kept.sock is first and listening["problem"] is None
            assert listening["expires"] >= before
        assert "over TLS, with a certificate until" in place.run("status").stdout


def test_an_address_without_tls_is_refused_at_the_start() -> None:
    with new_place(SMALL) as place:
        place.configure('[access]\nlisten = "0.0.0.0:7717"\n')
        place.launch()
        assert place.process is not None
        assert place.process.wait(DEADLINE_S) != 0
        place.process = None
        assert "tls_cert and tls_key, or behind_proxy" in place.log.read_text()


def test_behind_a_proxy_only_the_proxy_is_answered() -> None:
    with new_place(SMALL) as place:
        place.write("ada.md", OPEN["ada.md"])
        port = free_port()
        place.configure(
            source("notes", place.notes)
            + f'[access]\nlisten = "127.0.0.1:{port}"\nbehind_proxy = ["127.0.0.2"]\n'
            + 'hosts = ["notes.example.org"]\n'
        )
        place.start()
        token = new_token(place, "read")

        def ask(peer: str, host: str = "notes.example.org", **headers: str) -> tuple[int, str]:
            sent = {"Host": host, "Authorization": f"Bearer {token}", **headers}
            connection = HTTPConnection(
                "127.0.0.1", port, timeout=DEADLINE_S, source_address=(peer, 0)
            )
            with closing(connection):
                connection.request("GET", "/v1/status", headers=sent)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        secure = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.9"}
        assert ask("127.0.0.2", **secure)[0] == 200
        for peer, host, headers, why in (
            ("127.0.0.1", "notes.example.org", secure, "did not come through the proxy"),
            ("127.0.0.2", "notes.example.org", {}, "does not say that its client uses https"),
            ("127.0.0.2", "evil.example", secure, "the Host is"),
        ):
            status, text = ask(peer, host, **headers)
            assert status == 403 and why in text
        token = "wrong"
        assert ask("127.0.0.2", **secure)[0] == 401
        logged = [json.loads(line) for line in place.log.read_text().splitlines()]
        refused = [line for line in logged if line["event"] == "a token was refused"]
        assert refused[-1]["address"] == "192.0.2.9"


def test_a_closed_source_opens_to_the_user_and_groups_of_a_token() -> None:
    with new_place(SMALL) as place:
        server = Server(place, ("open",))
        config = place.home / "config.toml"
        viewers = 'visible_to = ["user:ann", "group:board"]'
        config.write_text(config.read_text() + source("closed", place.notes / "closed", viewers))
        place.post("/v1/reload", {})
        place.sync()

        def sees(user: str, *options: str) -> bool:
            made = place.run("token", "create", "--user", user, *options)
            assert made.returncode == 0, made.stderr
            return f"{CANARY}.md" in server.ask("documents", made.stdout.strip())[1]

        assert sees("ann")
        assert sees("bob", "--group", "board")
        assert not sees("bob")
        assert not sees("board")
        assert not sees("ann", "--source", "open")
        assert not sees("root")  # the user who runs the daemon, but not over its socket
