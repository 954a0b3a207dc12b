"""kill -9 of a daemon that watches a question: each change is told, and once."""

import json
import random
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.e2e.daemon import Place, serving

QUESTION = "Where does Kaltenbrunn live?"
TOWNS = ("Lisbon", "Cork", "Riga", "Graz", "Split", "Gent")


@pytest.fixture
def place() -> Iterator[Place]:
    with serving("notes", {"mira.md": "# Kaltenbrunn\n\nKaltenbrunn lives in Bergen.\n"}) as made:
        yield made


def test_each_change_of_a_watched_question_is_told_once_after_kills(place: Place) -> None:
    told = place.base / "told"
    program = place.base / "tell.py"
    program.write_text(f"import sys\nopen({str(told)!r}, 'a').write(sys.stdin.read() + '\\n')\n")
    assert place.run("watch", QUESTION, "--exec", f"{sys.executable} {program}").returncode == 0
    drawn = random.Random(5)
    for number in range(6):
        place.write("mira.md", f"# Kaltenbrunn\n\nKaltenbrunn lives in {TOWNS[number]}.\n")
        if number % 2:
            place.sync()
        # Amid the listing, the commit, the comparison or the telling.
        time.sleep(drawn.random() / 4)
        place.kill()
        place.start()
    version = place.sync()["version"]

    def is_told() -> bool:
        shown = place.get("/v1/watches/1?limit=100")
        return shown["watch"]["checked"] == version and all(
            one["delivered"] for one in shown["changes"]
        )

    place.until(is_told)
    changes = place.get("/v1/watches/1?limit=100")["changes"]
    assert changes[0]["after"]["answer"] == f"Kaltenbrunn lives in {TOWNS[-1]}."
    # Each begins where the one before ended, so none is missing and none is there twice.
    for newer, older in pairwise(changes):
        assert newer["before"]["answer"] == older["after"]["answer"]
        assert newer["before"]["answer"] != newer["after"]["answer"]
    place.until(told.exists)
    place.until(lambda: len(told.read_text().splitlines()) >= len(changes))
    ids = [json.loads(line)["id"] for line in told.read_text().splitlines()]
    assert sorted({*ids}) == sorted(one["id"] for one in changes)
    assert len(changes) > 1
    assert len(ids) - len({*ids}) <= len(TOWNS)  # each kill may repeat the telling it was amid
