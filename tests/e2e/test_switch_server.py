"""Daemons on one PostgreSQL database switch to other models at one version, and keep answering."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.errors import DaemonUnavailable
from tests.e2e.daemon import Place
from tests.e2e.team import Team, new_team
from tests.fakes.postgres import Postgres, postgres
from tests.fakes.switching_daemon import FAST, SLOW, SLOWER

NOTES = 80
PIECE = 32  # passages that a killed switch may make again
LONG_S = 300.0

Answered = list[tuple[int, str, bool]]
"""The version, the generation, and whether the daemon answered, of each question."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def team(server: Postgres) -> Iterator[Team]:
    with new_team(server, 2, ("tests.fakes.switching_daemon",), models(FAST)) as made:
        yield made


def models(dimensions: int) -> str:
    return f"[models]\nthreads = {dimensions}\n"


def finds(word: str, place: Place) -> bool:
    found = place.post("/v1/query", {"question": f"What of {word}?"})["passages"]
    return any(word in passage["text"] for passage in found)


def has_begun(team: Team) -> bool:
    """Whether the writer has made some of the new vectors."""
    writer = team.writer()
    switch = writer.status()["models"]["switch"] if writer else None
    return bool(switch and switch["passages_done"] > 0)


@contextmanager
def asked_throughout(team: Team) -> Iterator[Answered]:
    """Ask each daemon again and again."""
    ended, told = threading.Event(), Answered()

    def ask(place: Place) -> None:
        while not ended.wait(0.05):
            with suppress(DaemonUnavailable):
                before = state(place)
                answers = finds("Person7x", place)
                if state(place) == before:
                    told.append((*before, answers))

    with ThreadPoolExecutor(len(team.places)) as threads:
        asking = [threads.submit(ask, place) for place in team.places]
        try:
            yield told
        finally:
            ended.set()
        for one in asking:
            one.result()


def reload(team: Team, place: Place, dimensions: int) -> None:
    """Change the models, and reload; no restart may be needed."""
    team.more = models(dimensions)
    team.configure(place)
    output = place.printed("reload")
    assert (output["changed"], output["restart_needed"]) == (["models.threads"], [])


def restart(team: Team, place: Place, dimensions: int) -> None:
    team.more = models(dimensions)
    place.stop()
    team.configure(place)
    place.start()


def state(place: Place) -> tuple[int, str]:
    """The version and the generation that it answers from."""
    told: dict[str, Any] = place.status()
    return told["version"], told["models"]["generation"]


def wait(team: Team, condition: Callable[[Place], bool]) -> None:
    for place in team.places:
        place.until(partial(condition, place), LONG_S)


def write_notes(team: Team) -> Path:
    """Write and index notes; returns a file; while it exists, the slow encoder is slower."""
    for number in range(NOTES):
        team.write(f"{number}.md", f"# Note {number}\n\nPerson{number}x met Rome.\n")
    slower = team.places[0].base / "slower"
    slower.touch()
    for place in team.places:
        place.sync()
        place.variables[SLOWER] = str(slower)
    return slower


def check_answers(team: Team, answered: Answered, before: str) -> None:
    """Assert that every question was answered, by the old models until the switched version."""
    ((version, after),) = {state(place) for place in team.places}
    assert {name for number, name, _ in answered if number < version} == {before}
    assert {name for number, name, _ in answered if number == version} <= {after}
    assert all(answers for _, _, answers in answered)


def check_edit(team: Team) -> None:
    """Assert that all daemons find a new document, an edited one and an old one."""
    team.write("later.md", "# Later\n\nTimbuktu met Rome.\n")
    for word in ("Timbuktu", "Zanzibar", "Person7x"):
        wait(team, partial(finds, word))


def test_followers_answer_while_the_writer_switches_and_switch_at_its_version(team: Team) -> None:
    slower = write_notes(team)
    before = state(team.places[0])[1]
    with asked_throughout(team) as told:
        for place in team.places:
            restart(team, place, SLOW)
        team.places[0].until(partial(has_begun, team), LONG_S)
        team.write("new.md", "# New\n\nZanzibar met Rome.\n")
        wait(team, partial(finds, "Zanzibar"))
        killed = team.writer()
        assert killed is not None
        killed.kill()
        slower.unlink()
        killed.start()
        wait(team, lambda place: state(place)[1] != before)
    check_answers(team, told, before)
    made = team.reader().status()["counters"]["passages_generated"]
    assert 2 * (NOTES + 1) <= made <= 2 * (NOTES + 1) + PIECE
    check_edit(team)
    assert team.places[0].printed("check", "--deep")["findings"] == []


def test_a_reload_of_each_daemon_suffices_and_all_answer_throughout(team: Team) -> None:
    slower = write_notes(team)
    ids = [place.process.pid for place in team.places if place.process]
    before = state(team.places[0])[1]
    with asked_throughout(team) as told:
        for place in team.places:
            reload(team, place, SLOW)
        team.places[0].until(partial(has_begun, team), LONG_S)
        team.write("new.md", "# New\n\nZanzibar met Rome.\n")
        wait(team, partial(finds, "Zanzibar"))
        slower.unlink()
        wait(team, lambda place: state(place)[1] != before)
    check_answers(team, told, before)
    assert [place.process.pid for place in team.places if place.process] == ids
    check_edit(team)


def test_a_follower_with_other_models_keeps_answering_and_says_so(team: Team) -> None:
    slower = write_notes(team)
    writer, former = team.reader(), team.writer()
    assert former is not None
    before = state(former)
    restart(team, writer, SLOW)
    former.stop()
    writer.until(partial(team.is_written_by, writer))
    former.start()  # with the configuration that it had
    assert state(former) == before
    slower.unlink()
    writer.until(lambda: state(writer)[1] != before[1], LONG_S)
    former.until(lambda: former.status()["store"]["behind"] > 0)
    assert finds("Person7x", former) and state(former) == before
    reasons = former.post("/v1/query", {"question": "Who met Rome?"})["degraded"]
    assert any("[models]" in reason and "hopsyncd reload" in reason for reason in reasons)
    reload(team, former, SLOW)
    former.until(lambda: state(former) == state(writer), LONG_S)
    assert finds("Person7x", former)
