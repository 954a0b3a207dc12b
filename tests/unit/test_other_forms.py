"""A question finds passages that write what it names in another form."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hopsyncd.config.values import Search, Strategy
from tests.fakes.memory_sources import MemorySources
from tests.fakes.models import FakeEncoder

FILES = {
    "glossary.md": "# Words\n\nThe Enterprise Support Team (EST) is in the second hall.\n",
    "long.md": "# Desk\n\nQuarrels go to the enterprise support team on Fridays.\n",
    "short.md": "# Pay\n\nOvertime is paid by EST in March.\n",
    "apart.md": "# Parts\n\nA support beam for every enterprise, built by a team in April.\n",
    "who.md": "# Health\n\nThe World Health Organization (WHO) warned in June.\n",
    "health.md": "# Fever\n\nThe World Health Organization counted 40 cases in Oslo.\n",
    "kube.md": "---\naliases: [k8s]\n---\n# Kubernetes\n\nIt has a scheduler.\n",
    "cluster.md": "# Cluster\n\nThe Kubernetes upgrade took nine hours.\n",
    "Harbour crane.md": "---\naliases: [Zilla]\n---\nIt is painted red.\n",
    "rope.md": "# Rope\n\nThe harbour crane needs a new rope.\n",
    "oil.md": "# Oil\n\nZilla drips on Sundays.\n",
    "lunch.md": "# Lunch\n\nWho wants soup in June? Nobody knows whose turn it is.\n",
}


class Shelf:
    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.sources = MemorySources(folder, {"a": files}, FakeEncoder(), passage_tokens=40)

    def find(self, question: str, strategy: Strategy = "hop", k: int = 3) -> list[str]:
        """The paths of the first passages."""
        found = self.sources.engine.query(question, k, Search(strategy))
        assert found is not None
        return [found.places[hit.passage][0].document for hit in found.ranked]

    def absent(self, question: str) -> tuple[str, ...]:
        found = self.sources.engine.query(question, 3, Search())
        assert found is not None
        return found.absent


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    made = Shelf(tmp_path_factory.mktemp("forms") / "index", FILES)
    yield made
    made.sources.stack.close()


@pytest.mark.parametrize("strategy", ["hop", "bm25"])
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("EST quarrels", "long.md"),
        ("EST Fridays", "long.md"),
        ("Enterprise Support Team overtime", "short.md"),
        ("enterprise support team March", "short.md"),
        ("WHO Oslo", "health.md"),
        ("k8s upgrade", "cluster.md"),
        ("Zilla rope", "rope.md"),
        ("harbour crane Sundays", "oil.md"),
    ],
)
def test_a_keyword_query_finds_the_other_form(
    shelf: Shelf, query: str, path: str, strategy: Strategy
) -> None:
    assert shelf.find(query, strategy)[0] == path


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("Which quarrels go to the EST on Fridays?", "long.md"),
        ("When does the Enterprise Support Team pay in March?", "short.md"),
        ("What did the WHO count in Oslo?", "health.md"),
        ("How many hours did the k8s upgrade take?", "cluster.md"),
    ],
)
def test_a_question_finds_the_other_form(shelf: Shelf, question: str, path: str) -> None:
    assert path in shelf.find(question, k=2)


def test_a_word_in_lower_case_is_no_abbreviation(shelf: Shelf) -> None:
    assert shelf.find("who June", "bm25") == ["who.md", "lunch.md"]


def test_words_that_stand_apart_are_no_other_form(shelf: Shelf) -> None:
    assert {*shelf.find("EST", "bm25", k=9)} == {"glossary.md", "short.md", "long.md"}


def test_a_quoted_phrase_and_an_exact_search_find_the_words_as_typed(shelf: Shelf) -> None:
    found = shelf.sources.engine.query("Enterprise Support Team March", 3, Search(match="exact"))
    assert found is not None
    assert not found.ranked
    assert shelf.absent('"Kubernetes scheduler"') == ("Kubernetes scheduler",)


def test_of_many_meanings_the_most_defined_ones_count(tmp_path: Path) -> None:
    meanings = ["Alpha Beta Cat", "Apple Berry Cake", "Arch Bell Cove", "Axle Brake Crank"]
    files = {
        f"{name}{copy}.md": f"# Page{copy}\n\n{name} (ABC) is on page{copy}.\n"
        for number, name in enumerate(meanings)
        for copy in range(4 - number)
    }
    files |= {f"use {name}.md": f"# Use\n\n{name} needs zinc.\n" for name in meanings}
    shelf = Shelf(tmp_path / "index", files)
    found = shelf.find("ABC zinc", "bm25", k=5)
    assert {*found[:3]} == {f"use {name}.md" for name in meanings[:3]}
    shelf.sources.stack.close()
