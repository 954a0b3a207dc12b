"""Another user of the machine who answers in the daemon's place is told nothing."""

import asyncio
import os
import pwd
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopsyncd.client import AsyncClient, Client
from hopsyncd.client.trust import list_trusted_users
from hopsyncd.config.configuration import find_default_socket
from hopsyncd.errors import DaemonUntrusted
from tests.e2e.daemon import Place, new_place
from tests.fakes.odd_server import http, odd_server
from tests.fakes.other_user import as_user, serving_as

SECRET = "Where is the zyxwort kept?"
ONLY_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can take on another user's rights"
)
REPLY = http(b'{"version": 1}')


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as made:
        made.base.chmod(0o755)
        yield made


@pytest.fixture
def shared(place: Place) -> Path:
    """A folder in which everybody may make files, as in /tmp."""
    folder = place.base / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def stranger() -> int:
    return pwd.getpwnam("nobody").pw_uid


async def ask(path: Path) -> None:
    async with AsyncClient(path) as client:
        await client.query(SECRET)


async def listen(path: Path) -> None:
    async with AsyncClient(path) as client:
        [event async for event in client.ask_events(SECRET)]


def refusals(path: Path) -> list[str]:
    """What each way of asking says."""
    told = []
    for act in (
        lambda: Client(path).query(SECRET),
        lambda: list(Client(path).ask_events(SECRET)),
        lambda: asyncio.run(ask(path)),
        lambda: asyncio.run(listen(path)),
    ):
        with pytest.raises(DaemonUntrusted) as refused:
            act()
        told.append(str(refused.value))
    return told


@ONLY_ROOT
def test_a_squatted_folder_is_seen_before_a_word_is_sent(shared: Path) -> None:
    path = shared / "hopsyncd-0/s.sock"
    with serving_as(stranger(), path, REPLY) as heard:
        for message in refusals(path):
            assert "belongs to the user nobody" in message and "daemon.socket" in message
        assert heard.read_bytes() == b""


@ONLY_ROOT
def test_a_squatted_socket_and_a_link_to_one_are_detected_before_a_word_is_sent(
    shared: Path,
) -> None:
    path = shared / "s.sock"

    def put_link() -> None:
        (shared / "link").symlink_to(shared / "own")

    (shared / "own").mkdir(mode=0o700)
    as_user(stranger(), [], put_link)
    with pytest.raises(DaemonUntrusted, match="belongs to the user nobody"):
        list_trusted_users(shared / "link/s.sock")
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(path))
        os.chown(path, stranger(), -1)
        refusals(path)


@ONLY_ROOT
def test_a_process_of_another_user_behind_our_own_socket_is_seen(place: Place) -> None:
    folder = place.base / "run"
    folder.mkdir()
    os.chown(folder, stranger(), -1)
    path = folder / "s.sock"
    with serving_as(stranger(), path, REPLY) as heard:
        for one in (folder, path):
            os.chown(one, 0, 0)
        for message in refusals(path):
            assert "the process that listens on the socket belongs to the user nobody" in message
        assert heard.read_bytes() == b""


@ONLY_ROOT
@pytest.mark.parametrize(
    "command",
    [
        ("query", SECRET),
        ("ask", SECRET),
        ("status",),
        ("sync", "--wait"),
        ("log",),
        ("check",),
        ("doctor",),
        ("reload",),
        ("top", "--once"),
    ],
)
def test_no_command_sends_anything_to_a_squatted_socket(
    place: Place, shared: Path, command: tuple[str, ...]
) -> None:
    path = shared / "hopsyncd-0/s.sock"
    place.configure(f'[daemon]\nsocket = "{path}"\n')
    with serving_as(stranger(), path, REPLY) as heard:
        ran = place.run(*command)
        output = ran.stdout + ran.stderr
        assert ran.returncode != 0 and "Traceback" not in output
        assert "belongs to the user nobody" in output
        assert heard.read_bytes() == b""


@ONLY_ROOT
def test_completion_sends_nothing_to_a_squatted_socket(place: Place, shared: Path) -> None:
    path = shared / "hopsyncd-0/s.sock"
    place.configure(f'[daemon]\nsocket = "{path}"\n')
    place.variables |= {
        "_HOPSYNCD_COMPLETE": "bash_complete",
        "COMP_WORDS": "hopsyncd diff ",
        "COMP_CWORD": "2",
    }
    with serving_as(stranger(), path, REPLY) as heard:
        ran = place.run()
        assert "head" in ran.stdout and "Traceback" not in ran.stderr
        assert heard.read_bytes() == b""


def test_a_folder_in_which_others_may_replace_the_socket_is_refused(place: Place) -> None:
    folder = place.base / "run"
    folder.mkdir()
    folder.chmod(0o777)
    with odd_server(folder / "s.sock", REPLY):
        for message in refusals(folder / "s.sock"):
            assert f"other users can replace the files in {folder}" in message
            assert f"chmod go-w {folder}" in message
    folder.chmod(0o755)
    assert os.getuid() in list_trusted_users(folder / "s.sock")
    (place.base / "up").symlink_to("run/../run")
    assert list_trusted_users(place.base / "up/../run/s.sock") == list_trusted_users(
        folder / "s.sock"
    )


@ONLY_ROOT
def test_a_socket_that_only_root_could_create_may_belong_to_another_user(place: Place) -> None:
    """As docs/security.md has a group share one daemon."""
    folder = place.base / "run"
    folder.mkdir()
    os.chown(folder, stranger(), -1)
    with serving_as(stranger(), folder / "s.sock", http(b'{"status": "ok", "version": 1}')):
        assert stranger() in list_trusted_users(folder / "s.sock")
        assert Client(folder / "s.sock").get("/v1/health")["status"] == "ok"


@ONLY_ROOT
def test_the_runtime_folder_of_another_user_is_not_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = place.base / "theirs"
    theirs.mkdir()
    monkeypatch.delenv("HOPSYNCD_HOME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(theirs))
    assert find_default_socket() == theirs / "hopsyncd/hopsyncd.sock"
    os.chown(theirs, stranger(), -1)
    assert find_default_socket() == Path("/tmp/hopsyncd-0/hopsyncd.sock")
