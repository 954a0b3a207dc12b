"""Near-duplicates and pages from one template are one hit, and what is hidden is never counted."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.config.values import Search, Strategy
from hopsyncd.index.filters import Condition
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.results import Answer, format_answer
from hopsyncd.retrieve.similar import SPARE, collapse_similar
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.conflict_copies import is_conflict_copy
from store.records import Passage, PassageId
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

NOTICE = (
    "Ticket {number}\n\nThe heating in the north wing of the library was inspected by the caretaker"
    " and found to be in good order, so the boiler stays on until the end of the winter season.\n"
)
QUESTION = "Is the heating of the library in good order?"


def notice(number: int) -> bytes:
    return NOTICE.format(number=number).encode()


class Archive(Stack):
    """Five notices from one template and three other notes; two more notices in another source."""

    def __init__(self, database: Path) -> None:
        files = {f"tickets/{number}.md": notice(number) for number in range(1, 6)}
        files["boiler.md"] = b"The boiler of the library is forty years old.\n"
        files["budget.md"] = b"Order new radiators for the library from the heating budget.\n"
        files["roof.md"] = b"The roof leaks in heavy rain.\n"
        self.files = MemoryConnector(files)
        super().__init__(database, self.files, passage_tokens=120)
        self.database = database
        self.sync()
        row = register_source(self.connection, "private", "memory", "")
        private = MemoryConnector({f"private/{number}.md": notice(number) for number in (6, 7)})
        self.path.sync(Source(row, "private", private), Scope())

    def make_engine(self) -> Engine:
        engine = Engine(self.database, FakeEncoder(), WalkSettings())
        engine.publish(self.writer.make_snapshot(self.head))
        return engine

    def query(self, k: int = 3, strategy: Strategy = "hop", **more: Any) -> Answer:
        found = self.make_engine().query(QUESTION, k, Search(strategy), **more)
        assert found is not None
        return found


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path / "s.db")
    yield made
    made.close()


def documents(answer: Answer) -> list[tuple[str | None, list[str]]]:
    """The document of each hit, and those of its similar passages in order of their names."""
    found = format_answer(answer, answer.search)["passages"]
    return [
        (passage["document"], sorted(near["document"] or "" for near in passage["similar"]))
        for passage in found
    ]


@pytest.mark.parametrize("strategy", ["hop", "hybrid", "bm25", "dense"])
def test_pages_from_a_template_are_one_hit_and_free_their_places(
    archive: Archive, strategy: Strategy
) -> None:
    hits = documents(archive.query(strategy=strategy))
    groups = [[document, *similar] for document, similar in hits if similar]
    assert [sorted(map(str, group)) for group in groups] == [
        [*(f"private/{number}.md" for number in (6, 7)), *(f"tickets/{n}.md" for n in range(1, 6))]
    ]
    assert len(hits) == 3, "the freed places go to others"


def test_hidden_and_filtered_passages_are_not_counted(archive: Archive) -> None:
    hidden = documents(archive.query(hidden=frozenset({"private"})))
    (group,) = [[document, *similar] for document, similar in hidden if similar]
    assert len(group) == 5 and not any("private" in str(one) for one in group)
    condition = Condition("path", "tickets/1.md"), Condition("path", "private/6.md")
    narrowed = documents(archive.query(filter_=condition))
    (pair,) = [{document, *similar} for document, similar in narrowed]
    assert pair == {"tickets/1.md", "private/6.md"}


def test_a_past_version_counts_what_it_had(archive: Archive) -> None:
    then = documents(archive.query())
    version = str(archive.head.id)
    for number in range(8, 12):
        archive.files.put(f"tickets/{number}.md", notice(number))
    archive.files.remove("tickets/2.md")
    archive.sync()
    assert documents(archive.query(at=version)) == then
    assert documents(archive.query()) != then


def test_a_watched_question_has_the_same_hits(archive: Archive) -> None:
    engine = archive.make_engine()
    traced = Asker(engine, FakeEncoder(), FakeLanguage()).trace(QUESTION, 3, 3)
    assert traced is not None
    assert documents(traced[0]) == documents(archive.query())


def test_the_deeper_ranking_ends_with_the_hops_that_are_shown(archive: Archive) -> None:
    for hit in archive.query().ranked:
        assert hit.find_hops is None


def passages(*texts: str) -> dict[PassageId, Passage]:
    return {PassageId(number): Passage((), text) for number, text in enumerate(texts, 1)}


def collapse(
    known: Mapping[PassageId, Passage], question: str, k: int, copies: Collection[int] = ()
) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
    def read(ids: Iterable[PassageId]) -> Mapping[PassageId, Passage]:
        return {id_: known[id_] for id_ in ids}

    def find_copies(ids: Sequence[PassageId]) -> set[PassageId]:
        return {id_ for id_ in ids if id_ in copies}

    found = collapse_similar([Ranked(id_, 1.0) for id_ in known], question, k, read, find_copies)
    return [(hit.passage, hit.similar) for hit in found.hits], found.looked_at


RULE = "The gate in the {0} wall is locked at ten and opened again at six by the guard on duty."


def test_a_passage_with_another_word_of_the_question_keeps_its_place() -> None:
    known = passages(RULE.format("east"), RULE.format("west"), RULE.format("south"))
    assert collapse(known, "When is the gate opened?", 3) == ([(1, (2, 3))], 3)
    assert collapse(known, "When is the west gate opened?", 3) == ([(1, (3,)), (2, ())], 3)


def test_a_negation_in_the_question_distinguishes_passages() -> None:
    known = passages(RULE.format("east"), RULE.format("east").replace("is locked", "is not locked"))
    assert len(collapse(known, "Is the gate locked?", 2)[0]) == 1
    assert len(collapse(known, "Why is the gate not locked?", 2)[0]) == 2


def test_an_original_is_shown_before_a_conflict_copy_that_adds_nothing() -> None:
    known = passages(*map(RULE.format, ("east", "west", "south")))
    assert collapse(known, "When is the gate opened?", 3, {1}) == ([(2, (1, 3))], 3)
    assert collapse(known, "When is the gate opened?", 3, {1, 2}) == ([(3, (1, 2))], 3)
    assert collapse(known, "When is the gate opened?", 3, {1, 2, 3}) == ([(1, (2, 3))], 3)
    assert collapse(known, "Is the east gate opened?", 3, {1}) == ([(1, (2, 3))], 3)


def test_a_conflict_copy_in_a_folder_is_listed_below_its_original(archive: Archive) -> None:
    same, edited = (
        "roof (Ann's conflicted copy 2026-01-02).md",
        "a.sync-conflict-20260102-101112.md",
    )
    roof = b"The roof of the old library in the north wing leaks in heavy rain and hail.\n"
    archive.files.put("roof.md", roof)
    archive.files.put(same, roof)
    archive.files.put(edited, roof.replace(b"and hail", b"and snow"))
    archive.sync()
    for question in ("Does the roof leak in heavy rain?", "roof leaks"):
        found = archive.make_engine().query(question, 3, Search("hop"))
        assert found is not None
        assert documents(found)[0] == ("roof.md", [edited])
    found = archive.make_engine().query("Does the roof leak in snow?", 3, Search("hop"))
    assert found is not None
    assert documents(found)[0][0] == edited


@pytest.mark.parametrize(
    ("name", "is_copy"),
    [
        ("a/plan (Ann Lee's conflicted copy 2026-01-02).md", True),
        ("plan (conflicted copy 2026-01-02 101112).md", True),
        ("plan (Conflicted copy laptop 202601021011).md", True),
        ("plan.sync-conflict-20260102-101112-7QD3KLM.md", True),
        ("plan (SFConflict ann@x.org 2026-01-02-10-11-12).md", True),
        ("plan.md", False),
        ("on conflicted copies.md", False),
        ("conflicts (conflicted copy 1)/plan.md", False),
    ],
)
def test_conflict_copies_are_known_by_their_names(name: str, is_copy: bool) -> None:
    assert is_conflict_copy(name) is is_copy


def test_passages_with_much_of_their_own_are_not_similar() -> None:
    known = passages(
        RULE.format("east"), "The gate in the east wall is painted green, like all the others."
    )
    assert len(collapse(known, "gate", 2)[0]) == 2


def test_only_the_needed_passages_are_compared() -> None:
    known = passages(*(f"Note {number}: {'x' * number}" for number in range(1, 40)))
    assert collapse(known, "note", 5)[1] == 5


_TEXTS = st.lists(
    st.lists(st.sampled_from("a b c d e f g".split()), max_size=9).map(" ".join), max_size=12
)


@given(texts=_TEXTS, question=st.sampled_from(["", "a", "a g", "not b"]), k=st.integers(1, 6))
def test_hits_and_similar_passages_are_the_beginning_of_the_ranking(
    texts: list[str], question: str, k: int
) -> None:
    """Nothing is lost or counted twice, the order stays, and a smaller k gives a beginning."""
    known = passages(*texts)
    hits, looked_at = collapse(known, question, k)
    assert (len(hits) <= k and len(known) == 0) or looked_at <= len(known)
    every = [*(hit for hit, _ in hits), *(near for _, similar in hits for near in similar)]
    assert sorted(every) == list(range(1, looked_at + 1))
    assert [hit for hit, _ in hits] == sorted(hit for hit, _ in hits)
    assert len(hits) == min(k, len(hits)) and (looked_at == len(known) or len(hits) == k)
    fewer = [hit for hit, _ in collapse(known, question, max(k - 1, 1))[0]]
    assert fewer == [hit for hit, _ in hits][: len(fewer)]


def test_the_ranking_is_read_to_a_bound(archive: Archive) -> None:
    for number in range(20, 20 + 2 * SPARE):
        archive.files.put(f"tickets/{number}.md", notice(number))
    archive.sync()
    found = archive.query(k=2)
    assert len(found.ranked) + sum(len(hit.similar) for hit in found.ranked) <= 2 + SPARE
