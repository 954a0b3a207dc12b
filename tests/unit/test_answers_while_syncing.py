"""Questions asked while edits sync: each answer is the one that is given alone afterwards."""

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from hopsyncd.config.values import Search
from hopsyncd.ingest.plan import Source
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

HOP = Search("hop")
MASKS = (frozenset[str](), frozenset({"notes"}), frozenset({"closed"}))
ASKING, SECONDS = 3, 3.0
NAMES = ("Rome", "Paris", "Oslo", "Ada", "Caesar", "Babbage", "Lutetia", "Tiber")


@dataclass(frozen=True, slots=True)
class Heard:
    """A question, where it was asked, and its answer."""

    question: str
    version: int
    hidden: frozenset[str]
    ranked: tuple[Ranked, ...]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns so often that each step of one may meet any of another."""
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(was)


def text_of(chance: random.Random, number: int) -> bytes:
    said = " ".join(
        f"{chance.choice(NAMES)} met {chance.choice(NAMES)} in {chance.choice(NAMES)}{number}."
        for _ in range(6)
    )
    linked = f"See [[{chance.randrange(12)}]]."
    return f"# {chance.choice(NAMES)}\n\n{said} {linked}\n".encode()


def ask_until(
    stack: Stack, engine: Engine, chance: random.Random, until_s: float
) -> Iterator[Heard]:
    """Ask random questions, at the head or at a recent version, until this time."""
    while time.monotonic() < until_s:
        question = " ".join(chance.choices(NAMES, k=3))
        hidden = chance.choice(MASKS)
        past = max(1, stack.versions[-1].id - chance.randrange(4))
        at = chance.choice(["head", str(past)])
        found = engine.query(question, 5, HOP, at, hidden=hidden)
        if found is not None:
            yield Heard(question, found.version, hidden, found.ranked)


@pytest.mark.usefixtures("hasty")
def test_answers_while_edits_sync_are_those_given_alone_afterwards(tmp_path: Path) -> None:
    chance = random.Random(1)
    connectors = [
        MemoryConnector(
            {f"{index}.md": text_of(chance, index) for index in range(first, first + 6)}
        )
        for first in (0, 6)
    ]
    stack = Stack(tmp_path / "s.db", connectors[0])
    closed = register_source(stack.connection, "closed", "memory", "")
    sources = [stack.source, Source(closed, "closed", connectors[1])]
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())

    def sync(source: Source) -> None:
        stack.source = source
        stack.sync()
        engine.publish(stack.writer.make_snapshot(stack.head))

    for one in sources:
        sync(one)
    heard: list[Heard] = []
    failed: list[Exception] = []
    until_s = time.monotonic() + SECONDS

    def ask(seed: int) -> None:
        try:
            heard.extend(ask_until(stack, engine, random.Random(seed), until_s))
        except Exception as error:  # noqa: BLE001 - raised by the test
            failed.append(error)

    threads = [Thread(target=ask, args=(seed,)) for seed in range(ASKING)]
    for thread in threads:
        thread.start()
    number = 100
    while time.monotonic() < until_s and not failed:
        which, path = chance.randrange(2), f"{chance.randrange(12)}.md"
        files = connectors[which]
        if chance.randrange(6) or len(files.files) < 4 or path not in files.files:
            files.put(path, text_of(chance, number := number + 1))
        else:
            files.remove(path)
        sync(sources[which])
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    alone = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    alone.publish(stack.writer.make_snapshot(stack.head))
    assert len({one.version for one in heard}) > 3
    for asked in chance.sample(heard, min(len(heard), 150)):
        again = alone.query(asked.question, 5, HOP, str(asked.version), hidden=asked.hidden)
        assert again is not None
        assert again.ranked == asked.ranked, asked
    stack.close()
