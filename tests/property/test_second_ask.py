"""The second ask over random histories: as a rebuild, as a past version, as what a reader may see.

Each document names others, so that most questions are asked again about what a passage names.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.ranking import Ranked
from tests.fakes.memory_sources import MemorySources
from tests.unit.test_second_ask import DIMENSIONS, DenseEncoder

PEOPLE = ["Ada Berg", "Mira Lund", "Tove Holm", "Nils Dahl", "Vera Vik"]
FILMS = ["Bronze Door", "Silver Lake", "Copper Sky", "Iron Bridge"]
TOWNS = ["Ostrava", "Bergen", "Porto", "Riga"]
QUESTIONS = [
    "Where was the director of Bronze Door born?",
    "Which film came out first, Silver Lake or Copper Sky?",
    "Whom did the director of Iron Bridge meet in Riga?",
    "which director was shown last and where did they meet",  # direct hits keep places
    "Whom did Ada Berg meet, and in which town is Silver Lake shown last?",  # two clauses
]
SHOWN = 10


def draw_document(drawn: random.Random) -> tuple[str, str]:
    """A path, and what the document says this time."""
    if drawn.random() < 0.5:
        film, person = drawn.choice(FILMS), drawn.choice(PEOPLE)
        text = (
            f"# {film}\n\n{film} has the director {person}. It came out in {drawn.choice(TOWNS)}.\n"
        )
        if drawn.random() < 0.7:
            reels = (f"{film[0]}eel{index} has {film[1]}ound{index}." for index in range(90))
            text += f"\n{' '.join(reels)} {drawn.choice(TOWNS)} is shown last.\n"
        return f"{film}.md", text
    person, other = drawn.sample(PEOPLE, 2)
    town = drawn.choice(TOWNS)
    return (
        f"{person}.md",
        f"# {person}\n\n{person} was born in {town}. There {person} met {other}.\n",
    )


def open_sources(folder: Path, files: Mapping[str, Mapping[str, str]]) -> MemorySources:
    return MemorySources(folder, files, DenseEncoder(DIMENSIONS), passage_tokens=200)


def ask_all(
    index: MemorySources, at: str = "head", hidden: frozenset[str] = frozenset()
) -> list[tuple[Ranked, ...]]:
    found = [
        index.engine.query(question, SHOWN, Search(), at, hidden=hidden) for question in QUESTIONS
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
    index = open_sources(tmp_path / "index", files)
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
        answers = past[at] = ask_all(index)
        fresh = open_sources(tmp_path / f"fresh{step}", files)
        assert answers == ask_all(fresh)
        alone = open_sources(tmp_path / f"alone{step}", {"open": files["open"]})
        assert ask_all(index, hidden=frozenset({"closed"})) == ask_all(alone)
        hops = [step for ranked in answers for hit in ranked for step in hit.hops]
        follow_ups += sum(step.asked_by == "follow_up" for step in hops)
    assert follow_ups > 8  # else this would prove nothing
    assert {at: ask_all(index, at) for at in past} == past
