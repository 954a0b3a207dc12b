"""Several daemons on one PostgreSQL database: one writes, all answer, and no death loses anything.

HOPSYNCD_FAILOVERS says how often the writer is killed; by default three times.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import DEADLINE_S, SMALL, Place, new_place, source
from tests.fakes.postgres import Postgres, postgres

FAILOVERS = int(os.environ.get("HOPSYNCD_FAILOVERS", "3"))
FAILOVER_S = 10.0


class Team:
    """Daemons, each with a home of its own, that share a database and a folder of notes."""

    def __init__(self, stack: ExitStack, url: str, count: int) -> None:
        self.url = url
        self.places = [stack.enter_context(new_place(SMALL)) for _ in range(count)]
        self.notes = self.places[0].notes
        for place in self.places:
            place.configure(f'[store]\nurl = "{url}"\n{source("notes", self.notes)}')
            place.start()

    def write(self, path: str, text: str) -> None:
        self.places[0].write(path, text)

    @property
    def running(self) -> list[Place]:
        return [place for place in self.places if place.process]

    def writer(self) -> Place | None:
        """The one that says it is, if one does."""
        writers = [one for one in self.running if one.status()["store"]["role"] == "writer"]
        assert len(writers) <= 1
        return writers[0] if writers else None

    def is_written_by(self, place: Place) -> bool:
        return self.writer() is place

    def reader(self) -> Place:
        writer = self.writer()
        return next(place for place in self.running if place is not writer)

    def versions(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT id FROM hopsyncd.version ORDER BY id").fetchall()
        return [row[0] for row in rows]


def synced(place: Place) -> dict[str, Any]:
    """A sync, asked again while the server is lost."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return place.sync()
        except RequestFailed:
            assert time.monotonic() < end_s
            time.sleep(0.2)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def team(server: Postgres) -> Iterator[Team]:
    with ExitStack() as stack:
        made = Team(stack, server.database(), 2)
        made.places[0].until(lambda: made.writer() is not None)
        yield made


def test_what_one_writes_all_answer_and_a_sync_anywhere_is_a_barrier(team: Team) -> None:
    team.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
    reader, writer = team.reader(), team.writer()
    assert writer is not None
    done = reader.sync()
    assert done["version"] == reader.status()["version"] > 0
    assert [(one["name"], one["added"]) for one in done["sources"]] == [("notes", 1)]
    assert reader.documents("Who met Brutus?") == ["rome.md"]
    for strategy in ("hop", "dense", "bm25", "hybrid"):
        asked = {"question": "Who met Brutus?", "strategy": strategy}
        assert reader.post("/v1/query", asked) == writer.post("/v1/query", asked)
    refused = reader.run("tag", "mine", "1")
    assert refused.returncode != 0 and "another daemon writes" in refused.stderr
    team.write("oslo.md", "# Oslo\n\nHarald founded Oslo.\n")
    reader.until(lambda: "oslo.md" in reader.documents("Who founded Oslo?"))
    assert reader.status()["store"] == {"role": "reader", "behind": 0}


def test_a_killed_writer_is_followed_by_another_and_nothing_acknowledged_is_lost(
    team: Team,
) -> None:
    seed = random.Random(7)
    acknowledged = 0
    for number in range(FAILOVERS):
        team.write(f"{number}.md", f"# City{number}\n\nCaesar{number} met Brutus{number}.\n")
        reader = team.reader()
        acknowledged = reader.sync()["version"]
        team.write("busy.md", f"# Busy\n\nNero{number} is busy.\n")
        time.sleep(seed.uniform(0, 0.6))
        killed = team.writer()
        assert killed is not None
        killed.kill()
        reader.until(partial(team.is_written_by, reader), FAILOVER_S)
        assert reader.status()["version"] >= acknowledged
        assert f"{number}.md" in reader.documents(f"Who met Brutus{number}?")
        killed.start()
    for place in team.places:
        place.sync()
        for number in range(FAILOVERS):
            assert f"{number}.md" in place.documents(f"Who met Brutus{number}?", k=10)
    versions = team.versions()
    assert versions == list(range(1, versions[-1] + 1))
    assert team.places[0].run("check", "--deep").returncode == 0


@pytest.mark.parametrize("how", ["cut", "kill", "restart"])
def test_a_server_that_went_away_and_came_back_loses_nothing(
    team: Team, server: Postgres, how: str
) -> None:
    team.write("rome.md", "# Rome\n\nCaesar met Brutus in Rome.\n")
    acknowledged = team.reader().sync()["version"]
    if how == "cut":
        server.cut_connections()
    else:
        server.kill() if how == "kill" else server.stop()
        reader = team.places[1]
        reader.until(lambda: "Cannot reach the database" in str(reader.status()["error"]))
        assert reader.status()["version"] == acknowledged
        server.start()
    team.write("oslo.md", "# Oslo\n\nHarald founded Oslo.\n")
    for place in team.places:
        assert synced(place)["version"] > acknowledged
        assert "oslo.md" in place.documents("Who founded Oslo?")
        assert "rome.md" in place.documents("Who met Brutus?")


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
            assert any("the database server is away" in why for why in asked["degraded"])
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
    return place.post("/v1/query", {"question": "What became Paris?"})["degraded"] == []


def _shows_nothing_of(word: str, place: Place) -> bool:
    """Whether the daemon's copy of what it shows is made, without the word."""
    found = b"".join(file.read_bytes() for file in place.home.rglob("shown.db*"))
    return b"Harald" in found and word.encode() not in found


def test_a_password_does_not_belong_into_the_configuration(tmp_path: Path) -> None:
    with new_place(SMALL) as place:
        place.configure('[store]\nurl = "postgresql://me:geheim@localhost/notes"\n')
        ran = place.run("check")
        assert ran.returncode != 0
        assert "it contains a password" in ran.stderr and "geheim" not in ran.stdout
