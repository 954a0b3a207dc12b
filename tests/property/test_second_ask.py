"""The second ask over random histories: as a rebuild, as a past version, as what a reader may see.

Each document names others, so that most questions are asked again about what a passage names.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeLanguage
from tests.fakes.stack import Stack
from tests.unit.test_second_ask import DIMENSIONS, DenseEncoder

PEOPLE = ["Ada Berg", "Mira Lund", "Tove Holm", "Nils Dahl", "Vera Vik"]
FILMS = ["Bronze Door", "Silver Lake", "Copper Sky", "Iron Bridge"]
TOWNS = ["Ostrava", "Bergen", "Porto", "Riga"]
QUESTIONS = [
    "Where was the director of Bronze Door born?",
    "Which film came out first, Silver Lake or Copper Sky?",
    "Whom did the director of Iron Bridge meet in Riga?",
]
SHOWN = 10


def draw_document(drawn: random.Random) -> tuple[str, str]:
    """A path, and what the document says this time."""
    if drawn.random() < 0.5:
        film, person = drawn.choice(FILMS), drawn.choice(PEOPLE)
        text = (
            f"# {film}\n\n{film} has the director {person}. It came out in {drawn.choice(TOWNS)}.\n"
        )
        return f"{film}.md", text
    person, other = drawn.sample(PEOPLE, 2)
    town = drawn.choice(TOWNS)
    return (
        f"{person}.md",
        f"# {person}\n\n{person} was born in {town}. There {person} met {other}.\n",
    )


class Sources:
    """Sources in memory under one index, and an engine over it."""

    def __init__(self, folder: Path, files: Mapping[str, Mapping[str, str]]) -> None:
        folder.mkdir()
        maker = BuiltinMaker(FakeLanguage(), DenseEncoder(DIMENSIONS))
        self.stack = Stack(folder / "s.db", MemoryConnector(), maker, passage_tokens=200)
        self.connectors = {name: MemoryConnector() for name in files}
        self.sources = [
            Source(register_source(self.stack.connection, name, "memory", ""), name, connector)
            for name, connector in self.connectors.items()
        ]
        self.engine = Engine(folder / "s.db", DenseEncoder(DIMENSIONS), WalkSettings())
        for name, documents in files.items():
            for path, text in documents.items():
                self.connectors[name].put(path, text.encode())
        self.sync()

    def sync(self) -> str:
        """Serve what the sources have now; the number of that version."""
        for source in self.sources:
            self.stack.path.sync(source, Scope(None, accept_empty=True))
        newest = self.stack.versions[-1]
        self.engine.publish(self.stack.writer.snapshot_of(newest))
        return str(newest.id)

    def answers(
        self, at: str = "head", hidden: frozenset[str] = frozenset()
    ) -> list[tuple[Ranked, ...]]:
        found = [
            self.engine.query(question, SHOWN, Search(), at, hidden=hidden)
            for question in QUESTIONS
        ]
        return [answer.ranked for answer in found if answer]


@pytest.mark.parametrize("seed", range(3))
def test_after_any_edits_answers_are_those_of_a_rebuild_and_of_what_may_be_seen(
    tmp_path: Path, seed: int
) -> None:
    drawn = random.Random(seed)
    files: dict[str, dict[str, str]] = {"open": {}, "closed": {}}
    for _ in range(20):
        path, text = draw_document(drawn)
        files[drawn.choice(["open", "open", "closed"])][path] = text
    index = Sources(tmp_path / "index", files)
    past: dict[str, list[tuple[Ranked, ...]]] = {}
    follow_ups = 0
    for step in range(8):
        name = drawn.choice(["open", "closed"])
        path, text = draw_document(drawn)
        if path in files[name] and drawn.random() < 0.3:
            del files[name][path]
            index.connectors[name].remove(path)
        else:
            files[name][path] = text
            index.connectors[name].put(path, text.encode())
        at = index.sync()
        answers = past[at] = index.answers()
        fresh = Sources(tmp_path / f"fresh{step}", files)
        assert answers == fresh.answers()
        alone = Sources(tmp_path / f"alone{step}", {"open": files["open"]})
        assert index.answers(hidden=frozenset({"closed"})) == alone.answers()
        hops = [hop for ranked in answers for one in ranked for hop in one.hops]
        follow_ups += sum(hop.asked_by == "follow_up" for hop in hops)
    assert follow_ups > 8  # else this would prove nothing
    assert {at: index.answers(at) for at in past} == past
