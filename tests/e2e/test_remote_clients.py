"""Commands, Python clients, agents and the page against a server on another machine."""

import asyncio
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from hopsyncd.api.tokens import Role
from hopsyncd.client import AsyncClient, Client, RequestFailed, calls
from hopsyncd.errors import DaemonUnavailable, DaemonUntrusted
from tests.e2e.daemon import DEADLINE_S, SMALL, new_place
from tests.e2e.test_access import CANARY, QUESTION, new_token
from tests.e2e.test_remote import Server
from tests.fakes.certificates import Authority
from tests.fakes.forked import run_forked
from tests.fakes.port import free_port


class Laptop:
    """A machine of its own, as far as hopsyncd sees: a home without a daemon, and a token."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.home = folder / "laptop"
        self.home.mkdir()
        self.url = f"https://localhost:{server.port}"
        self.token_file = folder / "ann.token"
        self.token = new_token(server.place, "read", "--source", "open")
        self.token_file.touch(0o600)
        self.token_file.write_text(self.token + "\n")
        self.variables = {
            "HOPSYNCD_SERVER": self.url,
            "HOPSYNCD_TOKEN_FILE": str(self.token_file),
            "HOPSYNCD_CA": str(server.authority.file),
        }

    def run(self, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        variables = {**self.variables, **changed}
        environment = {
            **os.environ,
            "HOPSYNCD_HOME": str(self.home),
            **{name: value for name, value in variables.items() if value},
        }
        if "PYTHONPATH" in changed:
            return subprocess.run(
                [sys.executable, "-m", "hopsyncd", *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S * 2,
                check=False,
            )
        return run_forked(["hopsyncd", *arguments], environment, DEADLINE_S * 2)

    def client(self, **more: Any) -> Client:
        return Client(self.url, self.token, DEADLINE_S, self.server.authority.file, **more)


@pytest.fixture(scope="module")
def laptop() -> Iterator[Laptop]:
    with new_place(SMALL) as place:
        server = Server(place)
        yield Laptop(place.base, server)


def test_commands_send_requests_to_the_configured_server(laptop: Laptop) -> None:
    asked = laptop.run("query", "Who", "met", "Charles", "Babbage?", "--json")
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    assert {passage["document"] for passage in found["passages"]} == {"ada.md", "rome.md"}
    # The files are on the server. What this machine has at the same path is something else.
    assert '"path"' not in asked.stdout
    for command in (["ask", QUESTION], ["sources"], ["log"], ["status"], ["show", "ada.md"]):
        ran = laptop.run(*command)
        assert ran.returncode == 0, ran.stderr
        assert CANARY not in ran.stdout.replace(QUESTION, "") or command[0] == "ask"
        assert "closed" not in ran.stdout
    refused = laptop.run("sync")
    assert refused.returncode == 1 and "this request needs the role admin" in refused.stderr
    opened = laptop.run("open", "ada.md", "--print")
    assert opened.returncode == 1 and "the file is not on this machine" in opened.stderr


def test_options_and_the_configuration_name_the_server_too(laptop: Laptop) -> None:
    none = dict.fromkeys(laptop.variables, "")
    options = ["--server", laptop.url, "--token-file", str(laptop.token_file)]
    authority = str(laptop.server.authority.file)
    for arguments in (
        [*options, "--ca", authority, "status", "--json"],
        ["status", "--json", *options, f"--ca={authority}"],
    ):
        assert json.loads(laptop.run(*arguments, **none).stdout)["documents"] == 2
    (laptop.home / "config.toml").write_text(
        f'[client]\nserver = "{laptop.url}"\ntoken_file = "{laptop.token_file}"\n'
        f'ca = "{authority}"\n'
    )
    try:
        assert json.loads(laptop.run("status", "--json", **none).stdout)["documents"] == 2
    finally:
        (laptop.home / "config.toml").unlink()
    local = laptop.run("status", **none)
    assert local.returncode == 1 and "nothing listens on this socket" in local.stderr


def test_the_keyring_may_have_the_token(laptop: Laptop, tmp_path: Path) -> None:
    (tmp_path / "keyring.py").write_text(
        f"def get_password(service, name):\n    assert service == 'hopsyncd'\n"
        f"    return {laptop.token!r} if name == {laptop.url!r} else None\n"
    )
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ran = laptop.run("status", "--json", HOPSYNCD_TOKEN_FILE="", PYTHONPATH=path)
    assert json.loads(ran.stdout)["documents"] == 2, ran.stderr
    without = laptop.run("status", HOPSYNCD_TOKEN_FILE="")
    assert without.returncode == 1
    assert (
        "there is no token for this server" in without.stderr and "--token-file" in without.stderr
    )


@pytest.mark.parametrize("command", ["serve", "add", "remove", "service", "token", "doctor"])
def test_commands_that_need_this_machine_refuse_a_server(laptop: Laptop, command: str) -> None:
    more = {"token": ["list"], "service": ["status"], "add": ["/tmp"], "remove": ["x"]}
    ran = laptop.run(command, *more.get(command, []))
    assert ran.returncode == 2
    assert f"`hopsyncd {command}` works on this machine only" in ran.stderr


def test_both_python_clients_ask_over_kept_connections(laptop: Laptop) -> None:
    with laptop.client() as client:
        assert client.is_remote
        first = client.query(QUESTION)
        (kept,) = client._idle
        assert client.query(QUESTION)["passages"] == first["passages"]
        assert client._idle == [kept]
        with pytest.raises(RequestFailed) as refused:
            client.sync()
        assert refused.value.status == 403
        assert client.status()["documents"] == 2
        # The server has closed it meanwhile: another one is opened, and nothing fails.
        kept.sock.shutdown(socket.SHUT_RDWR)
        assert client.status()["documents"] == 2
        events = list(client.stream_events(calls.ask(QUESTION)))
        assert events[-1]["event"] == "answer"
    assert not client._idle

    async def ask() -> Any:
        place, file = laptop.url, laptop.server.authority.file
        async with AsyncClient(place, laptop.token, DEADLINE_S, file) as client:
            answers = await asyncio.gather(*(client.query(QUESTION) for _ in range(3)))
            assert answers[0]["passages"] == first["passages"]
            with pytest.raises(RequestFailed):
                await client.sync()

    asyncio.run(ask())


def test_an_agent_can_use_a_remote_server(laptop: Laptop) -> None:
    async def ask() -> None:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "hopsyncd", "mcp", "--server", laptop.url],
            env={**os.environ, **laptop.variables, "HOPSYNCD_HOME": str(laptop.home)},
        )
        async with stdio_client(command) as streams, ClientSession(*streams) as session:
            await session.initialize()
            found = await session.call_tool("search", {"query": "Who met Charles Babbage?"})
            text = json.dumps([part.model_dump() for part in found.content])
            assert "ada.md" in text and str(laptop.server.place.notes) not in text
            assert CANARY not in text

    asyncio.run(asyncio.wait_for(ask(), DEADLINE_S * 2))


def test_an_agent_with_the_role_write_leaves_notes_on_the_server(laptop: Laptop) -> None:
    inbox = laptop.server.place.base / "inbox"

    async def note(role: Role) -> tuple[set[str], str]:
        file = laptop.token_file.with_name(f"{role}.token")
        file.touch(0o600)
        file.write_text(laptop.server.tokens[role])
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "hopsyncd", "mcp", "--allow-write", "--token-file", str(file)],
            env={**os.environ, **laptop.variables, "HOPSYNCD_HOME": str(laptop.home)},
        )
        async with stdio_client(command) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            told = await session.call_tool("note", {"title": "Rome", "text": "Seen in May."})
            return tools, json.dumps([part.model_dump() for part in told.content])

    async def all_roles() -> list[tuple[set[str], str]]:
        return [await note(role) for role in ("metrics", "read", "write", "admin")]

    found = asyncio.run(asyncio.wait_for(all_roles(), DEADLINE_S * 8))
    (no_tools, _), (reading, refused), (writing, written), (all_tools, _) = found
    assert not no_tools and "search" in reading
    assert (writing - reading, all_tools - writing) == ({"note"}, {"sync", "tag"})
    assert "this request needs the role write" in refused
    first, _ = sorted(inbox.iterdir(), key=lambda file: len(file.name))
    assert first.name in written and "Seen in May." in first.read_text()


def test_the_page_works_with_a_remote_server(laptop: Laptop) -> None:
    command = [sys.executable, "-m", "hopsyncd", "web", "--no-browser"]
    variables = {**os.environ, **laptop.variables, "HOPSYNCD_HOME": str(laptop.home)}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as page:
        try:
            assert page.stdout
            address = page.stdout.readline().strip()
            with httpx2.Client(timeout=DEADLINE_S, follow_redirects=True) as browser:
                entered = browser.get(address)
                base = entered.text.partition("url=")[2].partition('"')[0]
                root = address.partition("/?")[0]
                sources = browser.get(f"{root}{base}sources")
                assert sources.status_code == 200
                assert "open" in sources.text and "closed" not in sources.text
        finally:
            page.terminate()
            page.wait(DEADLINE_S)


@contextmanager
def _other_server(cert: tuple[Path, Path] | None) -> Iterator[int]:
    """A server that is not hopsyncd, over TLS with this certificate or in plain HTTP."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.asked.append(dict(self.headers))  # type: ignore[attr-defined]
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.asked = []  # type: ignore[attr-defined]
        made.handle_error = lambda *_: None  # type: ignore[method-assign]
        if cert:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*cert)
            made.socket = context.wrap_socket(made.socket, server_side=True)
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made.server_address[1]
            assert not made.asked  # type: ignore[attr-defined]
        finally:
            made.shutdown()
            thread.join()


def _refusals(place: str, ca: Path | None) -> list[str]:
    """What both clients say, which must be the same."""

    async def ask() -> None:
        async with AsyncClient(place, "t" * 40, DEADLINE_S, ca) as client:
            await client.status()

    told = []
    for act in (Client(place, "t" * 40, DEADLINE_S, ca).status, lambda: asyncio.run(ask())):
        with pytest.raises((DaemonUntrusted, DaemonUnavailable)) as raised:
            act()
        told.append(str(raised.value))
    return told


def test_a_server_without_a_valid_certificate_gets_no_token(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    cases: list[tuple[tuple[Path, Path] | None, str, str]] = [
        (authority.issue(("other.example",)), "not for 127.0.0.1", "host name in the certificate"),
        (
            authority.issue(valid=timedelta(days=-1), file_name="old"),
            "has expired",
            "new certificate",
        ),
        (stranger.issue(file_name="strange"), "no authority that this machine trusts", "--ca FILE"),
        (None, "does not use TLS on this port", "Check the port"),
    ]
    for cert, why, hint in cases:
        with _other_server(cert) as port:
            for told in _refusals(f"https://127.0.0.1:{port}", authority.file):
                assert why in told and hint in told, told
                assert "\n" not in told
    with _other_server(stranger.issue(file_name="strange")) as port:
        for told in _refusals(f"https://127.0.0.1:{port}", None):
            assert "no authority that this machine trusts" in told


def test_plain_http_to_a_tls_port_says_what_to_write(laptop: Laptop) -> None:
    place = f"127.0.0.1:{laptop.server.port}"
    for told in _refusals(place, None):
        assert f"https://{place}" in told, told


def test_a_token_never_goes_to_another_machine_without_tls(tmp_path: Path) -> None:
    for place in ("http://notes.example.org:7717", "192.0.2.1:7717", "notes.example.org:7717"):
        with pytest.raises(DaemonUntrusted, match="others on the network could read the token"):
            Client(place, "t" * 40)
    with pytest.raises(DaemonUntrusted, match="the address of the server is not valid"):
        Client("https://notes.example.org/path", "t" * 40)
    for told in _refusals(f"https://localhost:{free_port()}", None):
        assert "nothing listens on this port" in told
    for told in _refusals("https://no-such-host.invalid", None):
        assert "no machine with this name is known" in told


def test_a_wrong_token_and_a_readable_token_file_are_reported(
    laptop: Laptop, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("hops_00000000_" + "x" * 43)
    wrong = laptop.run("status", HOPSYNCD_TOKEN_FILE=str(file))
    assert wrong.returncode == 1 and f"Your token ({file}) is unknown" in wrong.stderr
    file.chmod(0o644)
    readable = laptop.run("status", HOPSYNCD_TOKEN_FILE=str(file))
    assert readable.returncode == 1 and f"Run `chmod 600 {file}`" in readable.stderr
