"""A server that asks for a password: nothing shows it, and who lacks it gets nothing."""

import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.team import synced
from tests.fakes.other_user import answers, as_user
from tests.fakes.postgres import Postgres, postgres

SECRET = "geheim-4711"
QUESTION = "Who met Brutus?"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(password=SECRET) as running:
        yield running


@pytest.fixture
def url(server: Postgres) -> str:
    return server.database()


def configured(place: Place, url: str, password: str | None) -> Place:
    place.variables = {"PGPASSWORD": password} if password else {}
    place.configure(f'[store]\nurl = "{url}"\n{source("notes", place.notes)}')
    return place


@pytest.fixture
def serving(url: str) -> Iterator[Place]:
    with new_place(SMALL) as place:
        place.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
        configured(place, url, SECRET).start()
        place.sync()
        yield place


def test_the_password_is_in_no_log_status_file_or_list_of_processes(
    serving: Place, server: Postgres
) -> None:
    server.cut_connections()  # so that errors are told too
    synced(serving)
    shown = [
        serving.run(*command.split()) for command in ("status --json", "log", "check", "doctor")
    ]
    said = "".join(ran.stdout + ran.stderr for ran in shown)
    said += serving.request("GET", "/v1/metrics").text
    assert SECRET not in said
    written = serving.files_bytes()
    assert serving.log in written
    assert not [file for file, content in written.items() if SECRET.encode() in content]
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if SECRET.encode() in _listed(pid)]


def _listed(pid: Path) -> bytes:
    """What any user sees of a process."""
    with suppress(OSError):
        return (pid / "cmdline").read_bytes()
    return b""


@pytest.mark.parametrize("password", ["wrong-0815", None])
def test_without_the_password_nothing_is_served_or_read(
    serving: Place, url: str, password: str | None
) -> None:
    with new_place(SMALL) as other:
        configured(other, url, password)
        for command in ("serve", "check", "copy --to copy.db"):
            ran = other.run(*command.split())
            assert ran.returncode != 0
            assert "Cannot reach the database server" in ran.stderr, ran.stderr
            assert "wrong-0815" not in ran.stdout + ran.stderr
        assert "Rome" not in "".join(
            file.read_text(errors="replace") for file in other.home.rglob("*") if file.is_file()
        )


def test_a_copy_is_not_sent_to_a_url_with_a_password(serving: Place, url: str) -> None:
    ran = serving.run("copy", "--to", url.replace("hopsyncd@", f"hopsyncd:{SECRET}@"))
    assert ran.returncode != 0
    assert "the URL contains a password" in ran.stderr and SECRET not in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on another user's rights")
def test_another_user_gets_nothing_of_the_server_the_socket_or_the_copy(
    serving: Place, url: str
) -> None:
    stranger = pwd.getpwnam("daemon")

    def as_stranger(act: Callable[[], object]) -> object:
        return as_user(stranger.pw_uid, [], act)

    def ask_server() -> list[tuple[int]]:
        with psycopg.connect(url) as connection:
            return connection.execute("SELECT id FROM hopsyncd.version").fetchall()

    assert as_stranger(ask_server) == "OperationalError"
    query = ("POST", "/v1/query", {"question": QUESTION})
    assert as_stranger(lambda: answers(serving.socket, [query])) == "PermissionError"
    copy = serving.home / "data/index/shown.db"
    assert copy.exists()
    assert as_stranger(lambda: copy.read_bytes().hex()) == "PermissionError"
