"""kill -9 of a daemon that watches questions: told exactly when versions differ, and once."""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.daemon import Place, serving
from tests.fakes.watching import fact

QUESTIONS = ("Where does Adaberg live?", "Who repairs clocks in Bergen?", "Whom met Miraholm?")
# Whole, as the program of a daemon that was killed may write beside that of the next.
PROGRAM = """
import os, sys
os.write(os.open({heard!r}, os.O_WRONLY | os.O_APPEND), sys.stdin.buffer.read() + b"\\n")
"""

State = tuple[frozenset[str], str | None]


@pytest.fixture
def place(files: int) -> Iterator[Place]:
    drawn = random.Random(1)
    notes = {f"{number}.md": fact(drawn).decode() for number in range(files)}
    with serving("notes", notes) as made:
        yield made


def state(place: Place, question: str, version: int) -> State:
    asked = {"question": question, "k": 8, "at": str(version)}
    first = [passage["id"] for passage in place.post("/v1/query", asked)["passages"][:5]]
    answer = place.post("/v1/ask", asked)
    return frozenset(first), answer["answer"] if answer["found"] else None


def edit(place: Place, drawn: random.Random, files: int) -> None:
    path = f"{drawn.randrange(files)}.md"
    if drawn.random() < 0.2:
        (place.notes / path).unlink(missing_ok=True)
    else:
        place.write(path, fact(drawn).decode())


@pytest.mark.parametrize(
    ("files", "edits", "kills"),
    [
        (25, 12, 4),
        pytest.param(25, 1000, 60, marks=pytest.mark.nightly),
        pytest.param(300, 1000, 60, marks=pytest.mark.nightly),
    ],
)
def test_changes_are_notified_exactly_when_versions_differ_and_once_after_kills(
    place: Place, files: int, edits: int, kills: int
) -> None:
    heard = place.base / "heard"
    heard.touch()
    program = place.base / "tell.py"
    program.write_text(PROGRAM.format(heard=str(heard)))
    for question in QUESTIONS:
        place.run("watch", question, "--exec", f"{sys.executable} {program}")
    drawn = random.Random(5)
    killed = {*drawn.sample(range(edits), kills)}
    last = [state(place, question, place.status()["version"]) for question in QUESTIONS]
    notifications = Counter[tuple[int, int]]()
    read = 0
    for number in range(edits):
        edit(place, drawn, files)
        if number in killed:
            # Amid the listing, the commit, the comparison or the telling.
            time.sleep(drawn.random() / 2)
            place.kill()
            place.start()
        version = place.sync()["version"]
        place.until(partial(_are_told, place, heard, version))
        lines = heard.read_text().splitlines()
        for one in map(json.loads, lines[read:]):
            notifications[one["watch"], one["id"]] += 1
            if notifications[one["watch"], one["id"]] == 1:
                at, question = one["watch"] - 1, QUESTIONS[one["watch"] - 1]
                assert state(place, question, one["old"]) == last[at]
                assert state(place, question, one["new"]) != last[at]
                last[at] = state(place, question, one["new"])
        read = len(lines)
        assert last == [state(place, question, version) for question in QUESTIONS]
    assert len(notifications) > edits * 2 / files
    # One is delivered after the other, and a kill repeats the one that it was amid.
    assert sum(notifications.values()) - len(notifications) <= kills


def _are_told(place: Place, heard: Path, version: int) -> bool:
    return all(_is_told(place, heard, at, version) for at in (1, 2, 3))


def _is_told(place: Place, heard: Path, watch: int, version: int) -> bool:
    """Whether the version was compared, and all changes were delivered and heard."""
    shown = place.get(f"/v1/watches/{watch}?limit=10")
    lines = map(json.loads, heard.read_text().splitlines())
    told = {line["id"] for line in lines if line["watch"] == watch}
    return shown["watch"]["checked"] == version and all(
        change["delivered"] and change["id"] in told for change in shown["changes"]
    )
