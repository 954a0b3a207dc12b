"""A closed source stays closed to members, whatever becomes of it in the configuration."""

import grp
import json
import os
import pwd
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.team import Team, new_team
from tests.fakes.other_user import Asked, answers, as_user
from tests.fakes.postgres import postgres
from tests.fakes.switching_daemon import FAST, SLOW

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can take on another user's rights"
)

TEAM = grp.getgrgid(1).gr_name
MEMBER = pwd.getpwnam("nobody").pw_uid
CANARY = "zyxwort"
CLOSED = 'visible_to = ["user:root"]'
FOLLOWED_S = 5.0


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        _let_others_in(made)
        made.write("open/ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        made.write(f"closed/{CANARY}.md", f"# Praise\n\nAda Byron praised the {CANARY} in Rome.\n")
        yield made


def _let_others_in(place: Place) -> None:
    for folder in (place.base, place.home):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def configure(place: Place, closed: str | None, more: str = "") -> None:
    """Configure the open source, and the other one with these keys or not at all."""
    text = source("open", place.notes / "open")
    if closed is not None:
        text += source("closed", place.notes / "closed", closed)
    place.configure(f'{text}[access]\ngroup = "{TEAM}"\n{more}')


def begin(place: Place) -> int:
    """Index both sources; the version that has them."""
    configure(place, CLOSED)
    place.start()
    place.sync()
    return int(place.status()["version"])


def seen(place: Place, versions: list[int]) -> list[str]:
    """The requests of a member whose answers show something of the closed source."""
    asked: list[Asked] = [
        ("GET", "/v1/sources", None),
        ("GET", "/v1/status", None),
        ("GET", "/v1/log", None),
        ("GET", "/v1/jobs", None),
        ("GET", f"/v1/diff?from={versions[0]}&to=head", None),
    ]
    for at in ["head", *map(str, versions)]:
        named = f"document={CANARY}.md&source=closed&at={at}"
        asked += [
            ("POST", "/v1/query", {"question": "Ada Byron", "k": 9, "at": at}),
            ("POST", "/v1/queries", {"queries": [{"question": "Ada Byron", "k": 9, "at": at}]}),
            ("POST", "/v1/ask", {"question": "What did Ada Byron praise?", "at": at}),
            ("GET", f"/v1/documents?at={at}", None),
            ("GET", f"/v1/document?{named}", None),
        ]
    told = as_user(MEMBER, [grp.getgrnam(TEAM).gr_gid], partial(answers, place.socket, asked))
    assert isinstance(told, list), told
    assert told[5][0] == 200 and "Babbage" in told[5][1]  # members do read what is open
    return [
        f"{path} {body}"
        for (_, path, body), (_, text) in zip(asked, told, strict=True)
        if CANARY in text.replace(f"There is no document {CANARY}.md", "") or '"closed"' in text
    ]


def _reload_without(place: Place) -> None:
    configure(place, None)
    place.post("/v1/reload", {})


def _remove(place: Place) -> None:
    assert place.run("remove", "closed", "--yes").returncode == 0


def _restart_without(place: Place) -> None:
    place.stop()
    configure(place, None)
    place.start()


WAYS: list[Callable[[Place], None]] = [_reload_without, _remove, _restart_without]


@pytest.mark.parametrize("leave", WAYS)
def test_a_closed_source_that_leaves_the_configuration_stays_closed_also_when_it_returns(
    place: Place, leave: Callable[[Place], None]
) -> None:
    version = begin(place)
    assert seen(place, [version]) == []
    leave(place)
    assert seen(place, [version]) == []
    assert CANARY in json.dumps(place.query("Ada Byron", at=str(version)))
    configure(place, "")
    place.post("/v1/reload", {})
    place.sync()
    assert seen(place, [version]) == []
    assert "stay closed" in place.log.read_text()
    for command in (["status"], ["sources", "closed"], ["doctor"]):
        output = place.run(*command).stdout
        assert output.count("hidden from members") == 1 and output.count("hopsyncd reload") == 1
    place.stop()
    place.start()
    assert seen(place, [version]) == []
    configure(place, 'visible_to = ["members"]')
    place.post("/v1/reload", {})
    assert len(seen(place, [version])) > 8
    assert "hidden from members" not in place.run("status").stdout


def test_members_do_not_learn_from_a_switch_of_models_how_much_is_closed() -> None:
    with new_place(("tests.fakes.switching_daemon",)) as place:
        _let_others_in(place)
        place.write("open/ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        for number in range(60):
            place.write(f"closed/{number}.md", f"# Note {number}\n\nPerson{number}x met Rome.\n")
        configure(place, CLOSED, f"[models]\nthreads = {FAST}\n")
        place.start()
        place.sync()
        place.stop()
        configure(place, CLOSED, f"[models]\nthreads = {SLOW}\n")
        place.start()
        place.until(lambda: (place.status()["models"]["switch"] or {}).get("passages_total", 0) > 0)
        asked: list[Asked] = [("GET", "/v1/status", None)]
        told = as_user(MEMBER, [grp.getgrnam(TEAM).gr_gid], partial(answers, place.socket, asked))
        assert place.status()["models"]["switch"]["passages_total"] == 61
        status = json.loads(told[0][1])
        assert (status["passages"], status["models"]["switch"]) == (1, None)


@pytest.mark.parametrize("restarts", [False, True])
def test_removing_visible_to_opens_a_source(place: Place, restarts: bool) -> None:
    version = begin(place)
    if restarts:
        place.stop()
    configure(place, "")
    if restarts:
        place.start()
    else:
        place.post("/v1/reload", {})
    place.until(lambda: len(seen(place, [version])) > 8)


def test_a_member_sees_nothing_of_a_closed_source_while_it_comes_and_goes(place: Place) -> None:
    configure(place, None)
    place.start()
    place.sync()
    round_of: list[Asked] = [
        ("POST", "/v1/query", {"question": "Ada Byron", "k": 9}),
        ("GET", "/v1/log", None),
        ("GET", "/v1/documents", None),
        ("GET", "/v1/status", None),
    ]
    group, ended = grp.getgrnam(TEAM).gr_gid, threading.Event()

    def ask() -> list[tuple[int, str]]:
        told: list[tuple[int, str]] = []
        while not ended.is_set():
            told += as_user(MEMBER, [group], partial(answers, place.socket, round_of * 10))
        return told

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            for load in range(6):
                configure(place, None if load % 2 else CLOSED)
                place.post("/v1/reload", {})
                place.sync()
                place.write(f"closed/{load}.md", f"# Praise\n\nThe {CANARY} {load} is praised.\n")
        finally:
            ended.set()
        told = asking.result()
    assert {status for status, _ in told} == {200}
    assert not [text for _, text in told if CANARY in text or '"closed"' in text]
    assert CANARY in json.dumps(place.get("/v1/log"))


def test_a_follower_whose_configuration_is_older_closes_what_the_writer_closes() -> None:
    with postgres() as server, new_team(server, 2) as team:
        for number, place in enumerate(team.places):
            _let_others_in(place)
            place.stop()
            shutil.rmtree(place.socket.parent)  # the next start makes it for the group
            _configure_shared(team, place, None if number else "")
        writer, follower = team.places
        writer.write("open/ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        writer.write(f"closed/{CANARY}.md", f"# Praise\n\nAda Byron praised the {CANARY}.\n")
        writer.start()
        writer.until(lambda: team.is_written_by(writer))
        follower.start()
        version = writer.sync()["version"]
        follower.until(lambda: follower.status()["version"] >= version)
        assert seen(follower, [version]) == []  # its configuration does not have the source
        assert len(seen(writer, [version])) > 8

        follower.stop()
        _configure_shared(team, follower, "")
        follower.start()
        assert len(seen(follower, [version])) > 8
        _configure_shared(team, writer, CLOSED)
        writer.post("/v1/reload", {})
        assert seen(writer, [version]) == []
        end_s = time.monotonic() + FOLLOWED_S
        while seen(follower, [version]):
            assert time.monotonic() < end_s
        follower.stop()
        follower.start()
        assert seen(follower, [version]) == []

        writer.kill()
        follower.until(lambda: team.is_written_by(follower))
        follower.sync()
        assert seen(follower, [version]) == []
        follower.post("/v1/reload", {})
        assert seen(follower, [version]) == []
        _configure_shared(team, follower, 'visible_to = ["members"]')
        follower.post("/v1/reload", {})
        assert len(seen(follower, [version])) > 8


def _configure_shared(team: Team, place: Place, closed: str | None) -> None:
    text = source("open", team.notes / "open")
    if closed is not None:
        text += source("closed", team.notes / "closed", closed)
    place.configure(f'{text}[access]\ngroup = "{TEAM}"\n[store]\nurl = "{team.url}"\n')
