"""Several daemons on one PostgreSQL database: one writes, all answer, and no death loses anything.

`-m nightly` kills the writer fifty times.
"""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.client import RequestFailed
from hopsyncd.errors import DaemonUnavailable
from tests.e2e.daemon import SMALL, Place, new_place, serving, source
from tests.e2e.team import Team, new_team, synced
from tests.fakes.endpoint import Endpoint, say
from tests.fakes.postgres import Postgres, postgres

FAILOVER_S = 10.0
QUESTION = "Who met Brutus?"
DISK_BYTES = 96_000_000
Answers = list[dict[str, Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def team(server: Postgres) -> Iterator[Team]:
    with new_team(server, 2) as made:
        yield made


@pytest.fixture
def three(server: Postgres) -> Iterator[Team]:
    with new_team(server, 3) as made:
        yield made


@contextmanager
def asked_throughout(team: Team) -> Iterator[list[Answers]]:
    """Ask every daemon again and again; in the end, what each of them answered, in order."""
    ended = threading.Event()
    heard: list[Answers] = []

    def answers(place: Place) -> Answers:
        found = []
        while not ended.wait(0.05):
            with suppress(DaemonUnavailable):
                found.append(place.post("/v1/query", {"question": QUESTION}))
        return found

    with ThreadPoolExecutor(len(team.places)) as threads:
        asking: list[Future[Answers]] = [threads.submit(answers, place) for place in team.places]
        try:
            yield heard
        finally:
            ended.set()
        heard += [one.result() for one in asking]


def answer(place: Place, asked: dict[str, Any]) -> dict[str, Any]:
    """All of it but what the daemon has yet to do: a hint may come after the sync that it is of."""
    return {**place.post("/v1/query", asked), "degraded": None}


def assert_none_was_forked(team: Team, heard: list[Answers], acknowledged: set[int]) -> None:
    """Each version is there once, and was answered from as it is; no daemon went back."""
    versions = team.versions()
    assert versions == list(range(1, versions[-1] + 1))
    assert acknowledged <= {*versions}
    told: dict[int, Any] = {}
    for of_one in heard:
        numbers = [answer["version"] for answer in of_one]
        assert of_one and numbers == sorted(numbers)
        for answer in of_one:
            assert told.setdefault(answer["version"], answer["passages"]) == answer["passages"]
    for number, passages in told.items():
        assert team.places[0].query(QUESTION, at=str(number)) == passages
    assert team.places[0].run("check", "--deep").returncode == 0


def test_all_daemons_answer_from_each_write_and_a_sync_on_any_daemon_is_a_barrier(
    team: Team,
) -> None:
    team.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
    reader, writer = team.reader(), team.writer()
    assert writer is not None
    done = reader.sync()
    assert done["version"] == reader.status()["version"] > 0
    assert [(one["name"], one["added"]) for one in done["sources"]] == [("notes", 1)]
    assert reader.documents("Who met Brutus?") == ["rome.md"]
    for strategy in ("hop", "dense", "bm25", "hybrid"):
        asked = {"question": "Who met Brutus?", "strategy": strategy}
        assert answer(reader, asked) == answer(writer, asked)
    refused = reader.run("tag", "mine", "1")
    assert refused.returncode != 0 and "another daemon writes" in refused.stderr
    team.write("oslo.md", "# Oslo\n\nHarald founded Oslo.\n")
    reader.until(lambda: "oslo.md" in reader.documents("Who founded Oslo?"))
    assert reader.status()["store"] == {"role": "reader", "behind": 0, "lost": False}
    version = reader.status()["version"]
    reader.stop()
    assert (reader.home / "data/index/manifest.json").exists()  # its next start goes on from there
    reader.start()
    (told,) = reader.sync()["sources"]  # it knows what was there at its start
    assert (told["since"], told["added"]) == (version, 0)


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.nightly)])
def test_a_killed_writer_is_followed_by_another_and_nothing_acknowledged_is_lost(
    three: Team, kills: int
) -> None:
    seed = random.Random(7)
    three.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
    acknowledged = {three.reader().sync()["version"]}
    with asked_throughout(three) as heard:
        for number in range(kills):
            three.write(f"{number}.md", f"# City{number}\n\nCaesar{number} met Brutus{number}.\n")
            acknowledged.add(three.reader().sync()["version"])
            three.write("busy.md", f"# Busy\n\nNero{number} is busy.\n")
            time.sleep(seed.uniform(0, 0.6))
            killed = three.writer()
            assert killed is not None
            killed.kill()
            three.places[0].until(lambda: three.writer() is not None, FAILOVER_S)
            for place in three.running:
                place.until(partial(_serves, max(acknowledged), place))
                assert f"{number}.md" in place.documents(f"Who met Brutus{number}?")
            killed.start()
    for place in three.places:
        place.sync()
        for number in range(kills):
            assert f"{number}.md" in place.documents(f"Who met Brutus{number}?", k=10)
    assert_none_was_forked(three, heard, acknowledged)


@pytest.mark.parametrize("how", ["cut", "kill", pytest.param("restart", marks=pytest.mark.nightly)])
def test_a_server_that_went_away_and_came_back_loses_nothing(
    three: Team, server: Postgres, how: str
) -> None:
    three.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
    acknowledged = max(place.sync()["version"] for place in three.places)
    with asked_throughout(three) as heard:
        if how == "cut":
            server.cut_connections()
        else:
            server.kill() if how == "kill" else server.stop()
            for place in three.places:
                place.until(partial(_says, "Cannot reach the database", place))
                assert place.status()["version"] == acknowledged
            server.start()
        three.write("oslo.md", "# Oslo\n\nHarald founded Oslo.\n")
        for place in three.places:
            assert synced(place)["version"] > acknowledged
            assert "oslo.md" in place.documents("Who founded Oslo?")
            assert "rome.md" in place.documents(QUESTION)
    assert_none_was_forked(three, heard, {acknowledged})


def _serves(version: int, place: Place) -> bool:
    return int(place.status()["version"]) >= version


def _says(why: str, place: Place) -> bool:
    return why in str(place.status()["error"])


def test_while_the_servers_disk_is_full_all_daemons_answer_and_say_so() -> None:
    with postgres(disk_bytes=DISK_BYTES) as server, new_team(server, 3) as team:
        team.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
        acknowledged = {team.reader().sync()["version"]}
        writer = team.writer()
        assert writer is not None
        with asked_throughout(team) as heard:
            with server.full_disk():
                for number in range(1000):  # until there is no room for another page
                    if _says("Free some space on the server", writer):
                        break
                    team.write(f"{number}.md", f"# City{number}\n\n{f'Nero{number} sang. ' * 50}\n")
                    time.sleep(0.05)
                refused = pytest.raises(RequestFailed, match="No space left on device")
                with refused as raised:
                    team.reader().sync()
                assert "Free some space" in str(raised.value)
                answer = writer.post("/v1/query", {"question": QUESTION})
                assert any("No space left on device" in why for why in answer["degraded"])
                acknowledged.add(answer["version"])
            for place in team.places:
                acknowledged.add(synced(place)["version"])
                assert "rome.md" in place.documents(QUESTION)
                assert f"{number - 1}.md" in place.documents(f"Who is Nero{number - 1}?")
        assert_none_was_forked(team, heard, acknowledged)


def test_every_daemon_answers_any_question_while_the_server_is_away(
    team: Team, server: Postgres
) -> None:
    team.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
    team.write("oslo.md", "# Oslo\n\nHarald founded Oslo.\n")
    version = team.reader().sync()["version"]
    wanted = {
        strategy: team.reader().query("Who founded Oslo?", strategy=strategy)
        for strategy in ("hop", "dense", "bm25", "hybrid")
    }
    team.write("treasure.md", "# Treasure\n\nNero hid the treasure.\n")
    team.reader().sync()
    writer = team.writer()
    assert writer is not None
    writer.post("/v1/purge", {"document": "treasure.md"})
    for place in team.places:
        place.until(partial(_shows_nothing_of, "treasure", place))
    server.kill()
    try:
        for place in team.places:
            asked = place.post("/v1/query", {"question": "Who met Brutus?"})
            assert asked["passages"][0]["document"] == "rome.md"
            assert any("the database server cannot be reached" in why for why in asked["degraded"])
            for strategy, found in wanted.items():
                assert place.query("Who founded Oslo?", strategy=strategy) == found
            answer = place.post("/v1/ask", {"question": "Who founded Oslo?"})
            assert "Harald" in answer["answer"]
            with pytest.raises(RequestFailed, match="Cannot reach the database"):
                place.query("Who founded Oslo?", at=str(version))
    finally:
        server.start()
    team.write("paris.md", "# Paris\n\nLutetia became Paris.\n")
    for place in team.places:
        synced(place)
        assert "paris.md" in place.documents("What became Paris?")
        place.until(partial(_is_whole, place))


def _is_whole(place: Place) -> bool:
    return bool(place.post("/v1/query", {"question": "What became Paris?"})["degraded"] == [])


def _shows_nothing_of(word: str, place: Place) -> bool:
    """Whether the daemon's copy of what it shows is made, without the word."""
    found = b"".join(place.files_bytes("shown.db*").values())
    return b"Harald" in found and word.encode() not in found


def test_the_daily_limits_of_an_llm_hold_for_all_daemons_together(server: Postgres) -> None:
    limit = 5
    with Endpoint(lambda _: say("This is no JSON.")) as endpoint:
        llm = (
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "small"\nquestions = "off"\n'
            f"max_calls_per_day = {limit}\n"
        )
        with new_team(server, 2, more=llm) as team:
            team.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
            for place in team.places:
                place.sync()
            for _ in range(limit):
                for place in team.places:
                    place.post("/v1/ask", {"question": QUESTION, "llm": True})
            assert len(endpoint.requests) == limit
            for place in team.places:
                assert place.status()["llm"]["calls_today"] == limit
            assert not [*team.places[0].home.rglob("llm.db")]


def test_a_home_that_moves_to_a_server_and_back_answers_alike(server: Postgres) -> None:
    notes = {
        "rome.md": "# Rome\n\nCaesar met Brutus in Rome. [Oslo](oslo.md) is far.\n",
        "oslo.md": "# Oslo\n\nHarald founded Oslo. Brutus never saw it.\n",
    }
    with serving("notes", notes) as place:
        place.write("oslo.md", "# Oslo\n\nHarald founded Oslo, and Brutus saw it.\n")
        place.sync()
        wanted, url = _answers(place), server.database()
        config, back = source("notes", place.notes), place.base / "back"
        back.mkdir(mode=0o700)
        for to, section in (
            (url, f'[store]\nurl = "{url}"\n'),
            (str(back / "hopsyncd.db"), f'[daemon]\ndata_dir = "{back}"\n'),
        ):
            place.stop()
            ran = place.run("copy", "--to", to)
            assert ran.returncode == 0, ran.stderr
            place.configure(section + config)
            place.start()
            place.sync()
            assert _answers(place) == wanted


def _answers(place: Place) -> list[dict[str, Any]]:
    """At both versions, by every way that needs no other model."""
    return [
        answer(place, {"question": asked, "strategy": strategy, "at": at})
        for asked in (QUESTION, "Who founded Oslo?")
        for strategy in ("hop", "statement", "topic", "dense", "bm25", "hybrid")
        for at in ("1", "2")
    ]


def test_a_password_does_not_belong_into_the_configuration(tmp_path: Path) -> None:
    with new_place(SMALL) as place:
        place.configure('[store]\nurl = "postgresql://me:geheim@localhost/notes"\n')
        ran = place.run("check")
        assert ran.returncode != 0
        assert "the URL contains a password" in ran.stderr and "geheim" not in ran.stdout
