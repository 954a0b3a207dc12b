"""Eight readers, a writer and gc at once: every answer is that of one version, and of no other."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from threading import Event
from typing import Any, TypeAlias

import pytest

from hopsyncd.client import Client
from hopsyncd.config.values import STRATEGIES, Strategy
from tests.e2e.daemon import SMALL, Place, new_place, source

READERS = 8
NOTES = 150
CHANGES = 20  # of one round: what the readers were told is checked after each
KEPT = 2 * CHANGES  # versions, and a change is at most two: gc takes those of earlier rounds
MAX_WAL_BYTES = 64 << 20

PEOPLE = ["Ada", "Bruno", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Inez", "Jonas"]
TOWNS = ["Lisbon", "Cork", "Riga", "Graz", "Split", "Gent", "Turku", "Bergen", "Porto", "Lund"]
QUESTIONS = [
    "Who met Ada in Lisbon?",
    "Where does the clockmaker of Cork live?",
    "What did Greta write to Hugo?",
    "Which town has the house of the one whom Farid met?",
    "clockmaker",
    "Who left Turku for Bergen?",
]

Key: TypeAlias = tuple[int, str, Strategy]
Passages: TypeAlias = list[dict[str, Any]]
Told: TypeAlias = list[tuple[Key, Passages]]


def note(chance: Random) -> str:
    """A few passages that share their names with other notes."""
    parts = []
    for _ in range(chance.randint(1, 3)):
        one, other = chance.sample(PEOPLE, 2)
        here, there = chance.sample(TOWNS, 2)
        number = chance.randrange(1000)
        parts.append(
            f"# House {number} in {here}\n\nThe clockmaker {one} left {there} for {here}."
            f" {other} met {one} there and wrote {number} letters to {chance.choice(PEOPLE)}."
        )
    return "\n\n".join(parts) + "\n"


def change(place: Place, chance: Random) -> None:
    """Edit, create, delete or rename a note, or rename a folder of them."""
    files = sorted(place.notes.rglob("*.md"))
    chosen = chance.choice(files)
    kind = chance.choice(["edit", "edit", "create", "delete", "rename", "folder"])
    if kind == "edit":
        chosen.write_text(note(chance))
    elif kind == "delete" and len(files) > NOTES // 2:
        chosen.unlink()
    elif kind == "rename":
        chosen.rename(chosen.with_name(f"renamed-{chance.randrange(10**9)}.md"))
    elif kind == "folder":
        chosen.parent.rename(place.notes / f"folder-{chance.randrange(10**9)}")
    else:
        place.write(f"new/{chance.randrange(10**9)}.md", note(chance))


def write(place: Place, chance: Random) -> tuple[int, int]:
    """Change the notes, with gc now and then: versions collected, and the longest WAL in bytes."""
    wal = place.home / "data/hopsyncd.db-wal"
    collected = longest = 0
    for turn in range(1, CHANGES + 1):
        change(place, chance)
        place.sync()
        if turn % 10 == 0:
            collected += len(place.post("/v1/gc", {})["versions"])
        longest = max(longest, wal.stat().st_size)
    return collected, longest


def read(place: Place, chance: Random, over: Event) -> tuple[Told, Told]:
    """What a client is told until it is over: at the head, and at versions it was told before."""
    at_head: Told = []
    at_past: Told = []
    with Client(place.socket) as client:
        while not over.is_set():
            question, strategy = chance.choice(QUESTIONS), chance.choice(STRATEGIES)
            body = {"question": question, "strategy": strategy}
            told = at_head
            if at_head and chance.random() < 0.1:
                told = at_past
                body["at"] = str(chance.choice(at_head)[0][0])
            answer = client.post("/v1/query", body)
            told.append(((answer["version"], question, strategy), answer["passages"]))
    return at_head, at_past


def one_round(place: Place, chance: Random) -> tuple[list[tuple[Told, Told]], int, int]:
    """What each of the readers was told while the writer wrote, and what write() returns."""
    over = Event()
    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read, place, Random(chance.random()), over) for _ in range(READERS)]
        try:
            written = write(place, chance)
        finally:
            over.set()
        return [reader.result() for reader in readers], *written


def alone(place: Place, keys: Sequence[Key]) -> Iterator[tuple[Key, Passages]]:
    """The answers of a daemon with nothing in memory, asked one after the other."""
    place.stop()
    place.start()
    with Client(place.socket) as client:
        for version, question, strategy in keys:
            body = {"question": question, "strategy": strategy, "at": str(version)}
            yield (version, question, strategy), client.post("/v1/query", body)["passages"]


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(
            "[watch]\ndebounce_ms = 20\n"
            f"[retention]\nkeep_versions = {KEPT}\nkeep_days = 0\n" + source("notes", made.notes)
        )
        chance = Random(1)
        for number in range(NOTES):
            made.write(f"{number % 12}/{number}.md", note(chance))
        made.start()
        made.sync()
        yield made


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.nightly)])
def test_every_answer_is_of_one_version_and_versions_never_go_backwards(
    place: Place, seconds: int
) -> None:
    until_s = time.monotonic() + seconds
    chance = Random(2)
    collected = 0
    while time.monotonic() < until_s or not collected:
        told, gone, wal_bytes = one_round(place, chance)
        collected += gone
        assert wal_bytes < MAX_WAL_BYTES
        answers: dict[Key, Passages] = {}
        for at_head, at_past in told:
            versions = [key[0] for key, _ in at_head]
            assert all(before <= after for before, after in pairwise(versions))
            for key, passages in [*at_head, *at_past]:
                assert answers.setdefault(key, passages) == passages
        assert len({version for version, _, _ in answers}) > 2
        for key, passages in alone(place, sorted(answers)):
            assert answers[key] == passages
