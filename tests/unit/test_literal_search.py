"""Words as typed come first, absent words are named, and strength says what a match is worth."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.values import Search, Strategy
from hopsyncd.index.filters import Condition
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.retrieve.answering.reply import AskReply, format_reply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.query_words import read_query_words
from hopsyncd.retrieve.results import Answer, format_answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

FILES = {
    "build.md": b"# Build\n\nRun the build with --no-cache to fetch all again.\n",
    "layers.md": b"# Layers\n\nThe cache has no layers; no cache layer, no --no-cache-dir.\n",
    "versions.md": b"# Versions\n\nVersion 1.2.3 came before version 1.2.\n",
    "fuzz.md": b"# Fuzzing\n\nThe tool libFuzzer finds crashes.\n",
    "parser.md": b"# Parser\n\nCall parse_header before the body is read.\n",
    "tools.md": b"# Languages\n\nWritten in C++ and in C. Use .NET for the client.\n",
    "bill.md": b"# Bill\n\nThe bill is $15, due on 7 May 2025. Ring +49 30 1234567.\n",
    "law.md": b"# Law\n\nThe practical part is short.\n",
    "custom.md": b"# Custom\n\nPractice, practice, practice: the practices of practice.\n",
    "error.md": b"# Errors\n\nfatal: refusing to merge unrelated histories\n",
    "histories.md": b"# Histories\n\nUnrelated fatal histories: merge, merge, refusing to merge.\n",
}
SECRET = b"# Plans\n\nThe zeppelin is hidden.\n"


class Shelf(Stack):
    """Two sources, of which one may be hidden."""

    def __init__(self, database: Path) -> None:
        self.files = MemoryConnector(dict(FILES))
        super().__init__(database, self.files, passage_tokens=60)
        self.database = database
        self.sync()
        row = register_source(self.connection, "diary", "memory", "")
        self.path.sync(Source(row, "diary", MemoryConnector({"plans.md": SECRET})), Scope())

    def make_engine(self) -> Engine:
        engine = Engine(self.database, FakeEncoder(), WalkSettings())
        engine.publish(self.writer.make_snapshot(self.head))
        return engine

    def query(self, query: str, search: Search | None = None, **more: Any) -> Answer:
        found = self.make_engine().query(query, 5, search or Search(), **more)
        assert found is not None
        return found


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "s.db")
    yield made
    made.close()


def first_text(answer: Answer) -> str:
    return answer.passages[answer.ranked[0].passage].text


@pytest.mark.parametrize("strategy", ["hop", "hybrid", "bm25"])
@pytest.mark.parametrize(
    ("query", "literal"),
    [
        ("--no-cache", "--no-cache to"),
        ("1.2", "1.2."),
        ("libFuzzer", "libFuzzer"),
        ("lib fuzzer", "libFuzzer"),
        ("fuzzer", "libFuzzer"),
        ("parseHeader", "parse_header"),
        ("C++", "C++"),
        (".NET", ".NET"),
        ("$15", "$15"),
        ("7 May 2025", "7 May 2025"),
        ("+49 30 1234567", "+49 30"),
        ("practical", "practical"),
        ('"no layers"', "no layers"),
        ("refusing to merge unrelated histories", "fatal: refusing"),
        ("How does the build treat --no-cache?", "--no-cache to"),
    ],
)
def test_a_passage_with_the_words_as_typed_comes_first(
    shelf: Shelf, strategy: Strategy, query: str, literal: str
) -> None:
    found = shelf.query(query, Search(strategy))
    assert literal in first_text(found)
    assert found.absent == ()


@pytest.mark.parametrize(
    ("query", "absent"),
    [
        ("xyzzyx", ("xyzzyx",)),
        ("What is the xyzzyx of the build?", ("xyzzyx",)),
        ("What is libFuzzer's purpose?", ()),
        ("What is xyzzyx\u2019s purpose?", ("xyzzyx",)),
        ("--cache", ("--cache",)),
        ('"cache no"', ("cache no",)),
        ("2.3", ("2.3",)),
        ("fuzz", ()),
        ("uzzer", ("uzzer",)),
        ("Which device finds a crash?", ()),  # usual words may be meant otherwise
        ("What was built in 2031, for 3 people?", ()),  # years and quantities
        ("How do layers of 73MB take 61-62 minutes or 7.4 hours?", ()),
        ("Which bill has 48151623?", ("48151623",)),
        ("Which version is 7.4?", ("7.4",)),
        ('What was built in "2031"?', ("2031",)),
    ],
)
def test_words_that_no_passage_contains_are_named_and_make_every_match_weak(
    shelf: Shelf, query: str, absent: tuple[str, ...]
) -> None:
    found = shelf.query(query)
    shown = format_answer(found, found.search, Understood(query))
    assert found.absent == absent
    assert (shown["understood"]["absent"] if shown["understood"] else []) == list(absent)
    if absent:
        assert {passage["strength"] for passage in shown["passages"]} <= {"weak"}
        assert shown["passages"]


def test_a_keyword_query_found_as_typed_is_strong(shelf: Shelf) -> None:
    found = shelf.query("practical")
    assert found.strengths[found.ranked[0].passage] == "strong"


def test_a_search_by_filters_alone_rates_no_passage(shelf: Shelf) -> None:
    only_law = (Condition("path", "law.md"),)
    found = shelf.query("law.md", filter_=only_law)
    shown = format_answer(found, found.search, Understood("law.md", only_law, is_only_filters=True))
    assert [one["strength"] for one in shown["passages"]] == [None]
    assert shown["understood"] and not shown["understood"]["question"]


@pytest.mark.parametrize("command", ["query", "ask"])
def test_the_words_of_a_filter_are_not_corrected(shelf: Shelf, command: str) -> None:
    only_tag = (Condition("tag", "practicle"),)
    found = shelf.query("practicle", filter_=only_tag)
    assert found.spelling.applied
    parsed = Understood("practicle", only_tag, is_only_filters=True)
    shown = (
        format_answer(found, found.search, parsed)["understood"]
        if command == "query"
        else format_reply(found, AskReply("", None, "extractive", ()), (), parsed)["understood"]
    )
    assert shown
    assert (shown["question"], shown["words"], shown["absent"]) == ("", [], [])


def test_exact_finds_only_passages_with_every_word_as_typed(shelf: Shelf) -> None:
    found = shelf.query("practice short", Search(match="exact"))
    assert not found.ranked
    found = shelf.query("practical short", Search(match="exact"))
    assert [found.passages[hit.passage].heading for hit in found.ranked] == [("Law",)]


def test_semantic_keeps_the_order_of_the_strategy(shelf: Shelf) -> None:
    literal, semantic = (
        shelf.query("practical", Search("bm25", match=match)) for match in ("auto", "semantic")
    )
    assert "practical" in first_text(literal)
    assert "Practice" in first_text(semantic)  # the stem is the same, and it is there more often


def test_hidden_passages_are_not_counted(shelf: Shelf) -> None:
    assert shelf.query("zeppelin").absent == ()
    assert shelf.query("zeppelin", hidden=frozenset({"diary"})).absent == ("zeppelin",)
    only_law = (Condition("path", "law.md"),)
    assert shelf.query("libFuzzer", filter_=only_law).absent == ("libFuzzer",)


def test_a_past_version_is_asked_as_it_was(shelf: Shelf) -> None:
    before, then = shelf.head.id, shelf.query('"blimp hangar"')
    shelf.files.put("blimp.md", b"# Blimp\n\nThe blimp hangar is open.\n")
    shelf.sync()
    now, past = shelf.query('"blimp hangar"'), shelf.query('"blimp hangar"', at=str(before))
    assert (then.absent, now.absent, past.absent) == (("blimp hangar",), (), ("blimp hangar",))
    assert [hit.passage for hit in past.ranked] == [hit.passage for hit in then.ranked]


@pytest.mark.parametrize(
    "question",
    ["blimp", '"blimp hangar"', "What is the blimpo of the hangar?", "practical hangar"],
)
def test_a_watched_question_is_asked_again_when_its_words_appear(
    shelf: Shelf, question: str
) -> None:
    engine = shelf.make_engine()
    traced = engine.trace(question, 5)
    assert traced is not None and traced[1] is not None
    assert not engine.may_differ(question, traced[1])
    shelf.files.put("blimp.md", b"# Blimp\n\nThe blimp hangar of the blimpo is open.\n")
    shelf.sync()
    engine.publish(shelf.writer.make_snapshot(shelf.head))
    assert engine.may_differ(question, traced[1])


def test_incremental_indexing_ranks_words_as_a_rebuild_does(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files.put("cache.md", b"# More\n\nWith --no-cache the layers are built again.\n")
    shelf.sync()
    shelf.files.put("build.md", b"# Build\n\nNothing is said of it here.\n")
    shelf.sync()
    fresh = Stack(tmp_path / "fresh.db", shelf.files, passage_tokens=60)
    row = register_source(fresh.connection, "diary", "memory", "")
    fresh.sync()
    fresh.path.sync(Source(row, "diary", MemoryConnector({"plans.md": SECRET})), Scope())
    engine = Engine(tmp_path / "fresh.db", FakeEncoder(), WalkSettings())
    engine.publish(fresh.writer.make_snapshot(fresh.head))
    for query in ("--no-cache", "cache layers", '"built again"', "xyzzyx build"):
        rebuilt, grown = engine.query(query, 5, Search()), shelf.query(query)
        assert rebuilt is not None
        assert (rebuilt.absent, rebuilt.ranked) == (grown.absent, grown.ranked)
        assert rebuilt.strengths == grown.strengths
    fresh.close()


@pytest.mark.parametrize(
    ("query", "parts", "is_keywords"),
    [
        ("git push -f", ["-f", "git", "push"], True),
        ("SLOT=0", ["SLOT=0"], True),
        ("run not dry", ["run", "not", "dry"], True),
        ("What is the U.S. policy on AC/DC?", ["U.S", "policy", "AC", "DC"], False),
        ("the McDonald farm", ["McDonald", "farm"], True),
        ("\u201edry run\u201c of C#", ["dry run", "C#"], True),
        ("invoice of 1,500 \u20ac", ["1,500 \u20ac", "invoice"], True),
        ("can I cache", ["can", "cache"], False),
    ],
)
def test_the_query_determines_its_literal_parts(
    query: str, parts: list[str], is_keywords: bool
) -> None:
    read = read_query_words(query)
    assert [part.text for part in read.parts] == parts
    assert read.is_keywords is is_keywords
