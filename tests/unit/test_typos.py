"""Typos: words of a question that no passage has meet the nearest ones that a passage has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.values import STRATEGIES, Search, Strategy
from hopsyncd.index.filters import Condition
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.results import Answer, format_answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nThe aqueduct brings water to the thermal bathhouse of Rome.\n"
PARIS = b"# Paris\n\nThe cathedral of Paris stands on an island.\n"
SECRET = b"# Plans\n\nThe catapult of the garrison is hidden here.\n"


class Library(Stack):
    """Two sources, of which one may be hidden."""

    def __init__(self, database: Path) -> None:
        self.files = MemoryConnector({"rome.md": ROME, "paris.md": PARIS})
        super().__init__(database, self.files)
        self.database = database
        self.sync()
        row = register_source(self.connection, "diary", "memory", "")
        diary = Source(row, "diary", MemoryConnector({"plans.md": SECRET}))
        self.path.sync(diary, Scope())

    def ask(self, question: str, strategy: Strategy = "bm25", **more: Any) -> Answer:
        engine = Engine(self.database, FakeEncoder(), WalkSettings())
        engine.publish(self.writer.make_snapshot(self.head))
        found = engine.query(question, 3, Search(strategy), **more)
        assert found is not None
        return found


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    made = Library(tmp_path / "s.db")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Which aquedcut brings watter?", "Which aqueduct brings water?"),
        ("the CATHEDREL of Paris", "the CATHEDRAL of Paris"),
        ("qaueduct", "aqueduct"),  # the first two letters swapped
        ("wated", "water"),
        # Not like any word, a word in one of its forms, too short, or with another first letter.
        ("the trebuchet of Rome", "the trebuchet of Rome"),
        ("aqueducts and waters", "aqueducts and waters"),
        ("rom3 adn isl4nd", "rom3 adn isl4nd"),
        ("later", "later"),
        # More unknown words than known ones: another language.
        ("welche Inseln standen watert cathedrale", "welche Inseln standen watert cathedrale"),
    ],
)
def test_an_unknown_word_is_replaced_by_the_nearest_known_word(
    library: Library, typed: str, meant: str
) -> None:
    assert library.ask(typed).question == meant


@pytest.mark.parametrize("strategy", [strategy for strategy in STRATEGIES if strategy != "rerank"])
def test_every_strategy_finds_for_a_typo_what_it_finds_for_the_word(
    library: Library, strategy: Strategy
) -> None:
    typed, right = (
        library.ask(f"the {one} of Paris", strategy) for one in ("cathedrla", "cathedral")
    )
    assert typed.ranked == right.ranked
    assert typed.spelling.applied == {"cathedrla": "cathedral"} and not right.spelling.applied
    shown = format_answer(typed, typed.search, Understood("the cathedrla of Paris"))["understood"]
    assert shown is not None
    assert shown["words"] == [{"typed": "cathedrla", "meant": "cathedral"}]
    assert (shown["question"], shown["filter"]) == ("the cathedral of Paris", "")


def test_words_of_a_hidden_source_are_not_offered(library: Library) -> None:
    assert library.ask("the catapullt").question == "the catapult"
    hidden = frozenset({"diary"})
    assert library.ask("the catapullt", hidden=hidden).question == "the catapullt"
    # Nor is the form of a word that only a hidden source has.
    library.files.put("rome.md", ROME + b"\nIts aqueducts are old, and garrisoned.\n")
    library.sync()
    assert library.ask("the garrisno").question == "the garrison"
    assert library.ask("the garrisno", hidden=hidden).question == "the garrisno"


def test_only_words_of_the_version_are_offered(library: Library) -> None:
    before = library.head.id
    library.files.put("rome.md", b"# Rome\n\nThe amphitheatre of Rome.\n")
    library.sync()
    for typed, then, now in (
        ("the aquedcut", "the aqueduct", "the aquedcut"),
        ("the amphitheater", "the amphitheater", "the amphitheatre"),
    ):
        assert library.ask(typed, at=str(before)).question == then
        assert library.ask(typed).question == now


def test_a_filter_makes_no_word_unknown(library: Library) -> None:
    only_paris = (Condition("path", "paris.md"),)
    assert library.ask("the water of Paris", filter_=only_paris).spelling.applied == {}
    found = library.ask("the cathedrla of Paris", filter_=only_paris)
    assert found.question == "the cathedral of Paris"


def test_a_word_with_marks_is_one_word_however_they_are_written(library: Library) -> None:
    library.files.put("istanbul.md", "# City\n\nİstanbul has Çinili baths.\n".encode())
    library.sync()
    for typed, meant in (
        ("the baths of İstambul", "the baths of İstambul"),  # \u0130 has two letters in lower case
        ("İstambul baths", "Istanbul baths"),
        ("the baths of İSTANBUL", "the baths of İSTANBUL"),
        ("are C\u0327inili baths", "are C\u0327inili baths"),  # composed and not
        ("are C\u0327inuli baths", "are C\u0327inuli baths"),  # may be a name
        ("are c\u0327inuli baths", "are çinili baths"),
        ("浴場istambulは", "浴場istanbulは"),  # beside a script without spaces
    ):
        assert library.ask(typed).question == meant


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("which objector spoke", {"objector": "object"}),  # "objection" occurs
        ("who met Cathedrel in Paris", {"cathedrel": "cathedral"}),  # may be a name
        ("wann kommt das watter", {"watter": "water"}),  # another language
        ("the aquedu bridge", {}),  # begins a word, and is near to none
    ],
)
def test_a_correction_is_offered_where_the_word_may_be_meant(
    library: Library, typed: str, offered: dict[str, str]
) -> None:
    library.files.put("court.md", b"# Court\n\nThe objection to the object was heard.\n")
    library.sync()
    found = library.ask(typed)
    assert (found.question, found.spelling.offered) == (typed, offered)
    assert not found.spelling.applied
    shown = format_answer(found, found.search, Understood(typed))["understood"]
    words = [{"typed": one, "meant": other} for one, other in offered.items()]
    assert (shown["offered"] if shown else []) == words


@pytest.mark.parametrize("typed", ['the "cathedrla" here', "--cathedrla", "cathedrla_dome"])
def test_phrases_and_codes_are_never_corrected(library: Library, typed: str) -> None:
    found = library.ask(typed)
    assert found.question == typed
    assert not found.spelling.offered


def test_function_words_of_other_languages_are_no_typos(library: Library) -> None:
    library.files.put("want.md", b"# Want\n\nThey want the water.\n")
    library.sync()
    assert library.ask("wann water").spelling.applied == {}
