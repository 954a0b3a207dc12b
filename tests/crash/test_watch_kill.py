"""kill -9 of a daemon that watches questions: told exactly when versions differ, and once."""

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.daemon import Place, serving
from tests.fakes.watching import fact

QUESTIONS = ("Where does Adaberg live?", "Who repairs clocks in Bergen?", "Whom met Miraholm?")
FILES = 25

State = tuple[frozenset[str], str | None]


@pytest.fixture
def place() -> Iterator[Place]:
    drawn = random.Random(1)
    files = {f"{number}.md": fact(drawn).decode() for number in range(FILES)}
    with serving("notes", files) as made:
        yield made


def state(place: Place, question: str, version: int) -> State:
    asked = {"question": question, "k": 8, "at": str(version)}
    first = [one["id"] for one in place.post("/v1/query", asked)["passages"][:5]]
    answer = place.post("/v1/ask", asked)
    return frozenset(first), answer["answer"] if answer["found"] else None


def edit(place: Place, drawn: random.Random) -> None:
    path = f"{drawn.randrange(FILES)}.md"
    if drawn.random() < 0.2:
        (place.notes / path).unlink(missing_ok=True)
    else:
        place.write(path, fact(drawn).decode())


@pytest.mark.parametrize(
    ("edits", "kills"), [(12, 4), pytest.param(1000, 60, marks=pytest.mark.nightly)]
)
def test_changes_are_told_exactly_when_versions_differ_and_once_after_kills(
    place: Place, edits: int, kills: int
) -> None:
    heard = place.base / "heard"
    heard.touch()
    program = place.base / "tell.py"
    program.write_text(f"import sys\nopen({str(heard)!r}, 'a').write(sys.stdin.read() + '\\n')\n")
    for question in QUESTIONS:
        place.run("watch", question, "--exec", f"{sys.executable} {program}")
    drawn = random.Random(5)
    killed = {*drawn.sample(range(edits), kills)}
    last = [state(place, one, place.status()["version"]) for one in QUESTIONS]
    tellings: dict[int, int] = defaultdict(int)
    for number in range(edits):
        edit(place, drawn)
        if number in killed:
            # Amid the listing, the commit, the comparison or the telling.
            time.sleep(drawn.random() / 2)
            place.kill()
            place.start()
        version = place.sync()["version"]
        place.until(lambda now=version: all(_is_told(place, at, now) for at in (1, 2, 3)))
        for line in heard.read_text().splitlines():
            one: dict[str, Any] = json.loads(line)
            tellings[one["id"]] += 1
            if tellings[one["id"]] == 1:
                at, question = one["watch"] - 1, QUESTIONS[one["watch"] - 1]
                assert state(place, question, one["old"]) == last[at]
                assert state(place, question, one["new"]) != last[at]
                last[at] = state(place, question, one["new"])
        heard.write_text("")
        assert last == [state(place, one, version) for one in QUESTIONS]
    assert len(tellings) > edits / 10
    repeated = sum(tellings.values()) - len(tellings)
    assert repeated <= kills * len(QUESTIONS)  # each kill may repeat the tellings it was amid


def _is_told(place: Place, watch: int, version: int) -> bool:
    shown = place.get(f"/v1/watches/{watch}?limit=10")
    told = all(one["delivered"] for one in shown["changes"])
    return bool(told and shown["watch"]["checked"] == version)
