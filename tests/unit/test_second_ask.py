"""Subjects and the second ask: what is asked once a first passage has been read."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hopsyncd.config.values import Search
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.dependencies import Dependencies, is_touched
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.results import format_answer
from hopsyncd.retrieve.second_ask import Plan
from hopsyncd.retrieve.strategies.hop import HopSearch, run_hop_search
from hopsyncd.retrieve.walk import find_subjects, share_among_subjects
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import PassageId
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

DIMENSIONS = 256
QUESTION = "Where was the director of Bronze Door born?"
FILM = b"# Bronze Door\n\nBronze Door has the director Mira Kaltenbrunn. It lasts long.\n"
DIRECTOR = b"# Mira Kaltenbrunn\n\nMira Kaltenbrunn paints.\n"
RECORD = b"# registry\n\nmira kaltenbrunn born.\n"  # has no name to walk along
FILES = {"door.md": FILM, "mira.md": DIRECTOR, "record.md": RECORD}
FAR = {
    f"far/{n}.md": f"# Topic{n}\n\nTopic{n} has a valve{n}. It turns pump{n}.\n".encode()
    for n in range(300)
}


class DenseEncoder(FakeEncoder):
    """Bags of words in which a word is a random direction, and a text has length 1: the index
    rounds as it does for real models."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        sums = np.stack([sum(map(self._draw, re.findall(r"\w+", text.lower()))) for text in texts])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        unit: NDArray[np.float32] = (sums / np.maximum(lengths, 1e-9)).astype(np.float32)
        return unit

    def _draw(self, word: str) -> NDArray[np.float64]:
        return np.random.default_rng([*word.encode()]).normal(size=self.dimensions)


class Asking:
    """A folder of files with an engine over it."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.connector = MemoryConnector(files)
        self.encoder = DenseEncoder(DIMENSIONS)
        maker = BuiltinMaker(FakeLanguage(), DenseEncoder(DIMENSIONS))
        self.stack = Stack(folder / "s.db", self.connector, maker, passage_tokens=200)
        self.engine = Engine(folder / "s.db", self.encoder, WalkSettings())
        self.sync()

    def sync(self) -> None:
        self.stack.sync()
        self.engine.publish(self.stack.writer.make_snapshot(self.stack.head))

    def put(self, path: str, text: str) -> None:
        self.connector.put(path, text.encode())
        self.sync()

    def context(self, question: str) -> QueryContext:
        with self.engine.reading() as (connection, served):
            assert served is not None
            found = self.engine._searcher.make_context(connection, served, question)
            every = found.read([PassageId(id_) for id_ in served.passage_ids.tolist()])
            return replace(found, read=lambda ids: {id_: every[id_] for id_ in ids})

    def search(self, question: str = QUESTION) -> HopSearch:
        found = run_hop_search(self.context(question), WalkSettings())
        assert found is not None
        return found

    def plans(self, question: str = QUESTION) -> dict[str, Plan]:
        """The follow-ups by the title of the passage that was read."""
        context = self.context(question)
        found = run_hop_search(context, WalkSettings())
        assert found is not None
        plans = [follow_up.plan for follow_up in found.second_ask.follow_ups]
        titles = self.titles(context, [plan.start for plan in plans])
        return dict(zip(titles, plans, strict=True))

    def titles(self, context: QueryContext, rows: Sequence[int]) -> list[str]:
        ids = [PassageId(id_) for id_ in context.snapshot.passage_ids[[*rows]].tolist()]
        passages = context.read(ids)
        return [passages[id_].heading[0] for id_ in ids]

    def dependencies(self, question: str = QUESTION) -> Dependencies:
        traced = self.engine.trace(question, 5)
        assert traced is not None and traced[1] is not None
        return replace(traced[1], lead=1.0)

    def touches(self, dependencies: Dependencies) -> bool:
        assert self.engine.head is not None
        return is_touched(dependencies, self.engine.head)


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path, FILES | FAR)


def test_a_follow_up_drops_answered_words_and_adds_the_names_of_the_passage(
    asking: Asking,
) -> None:
    plan = asking.plans()["Bronze Door"]
    assert plan.names == ("mira kaltenbrunn",)  # "Bronze Door" stands in the question
    assert plan.words.split()[-1] == "born?"
    assert not {"director", "Bronze", "Door"} & {*plan.words.split()}
    assert "born" in plan.terms and "door" not in plan.terms


def test_the_page_and_explain_show_the_follow_up(asking: Asking) -> None:
    search = Search()
    reply = format_answer(asking.engine.query(QUESTION, 5, search), search)
    (hop,) = next(passage for passage in reply["passages"] if passage["document"] == "record.md")[
        "hops"
    ]
    assert hop["asked_by"] == "follow_up"
    assert (hop["from"]["document"], hop["to"]["document"]) == ("door.md", "record.md")
    assert hop["question"] == "Then asked about Mira Kaltenbrunn"
    assert 0.1 < hop["share"] <= 1


def test_a_follow_up_brings_its_share_to_what_answers_it(asking: Asking) -> None:
    found, context = asking.search(), asking.context(QUESTION)
    first = found.second_ask.follow_ups[0]
    assert first.plan.names == ("mira kaltenbrunn",)
    titles = asking.titles(context, first.rows[:2].tolist())
    assert titles == ["registry", "Mira Kaltenbrunn"]
    gained = found.scores - found.walked.scores
    assert 0 < gained.sum() <= 0.4 + 1e-9  # "no answer" keeps the rest
    assert first.scores[0] > 0.5 * first.scores.sum()
    documents = context.snapshot.statistics.visible.document_of_row
    assert (documents[first.rows] != documents[first.plan.start]).all()


def test_a_follow_up_uses_the_passages_that_were_found_for_the_question(asking: Asking) -> None:
    context = asking.context(QUESTION)
    assert context.matches.keys() == context.terms.keys()
    again, found = run_hop_search(context, WalkSettings()), asking.search()
    anew = run_hop_search(replace(context, matches={}), WalkSettings())
    assert again and anew and "born" in found.second_ask.follow_ups[0].weights
    for search in (again, anew):
        assert search.scores.tolist() == found.scores.tolist()


def test_without_open_words_no_follow_up_is_asked(tmp_path: Path) -> None:
    asking = Asking(tmp_path, {"bread.md": b"# Bread\n\nbread is baked from flour.\n"})
    before = asking.encoder.encoded
    found = asking.search("bread baked flour")
    assert found.second_ask.follow_ups == ()
    assert np.array_equal(found.scores, found.walked.scores)
    assert asking.encoder.encoded == before + 1  # the question


def test_all_follow_ups_are_encoded_in_one_call(tmp_path: Path) -> None:
    calls: list[list[str]] = []

    class Noting(DenseEncoder):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            calls.append([*texts])
            return super().encode(texts)

    asking = Asking(tmp_path, FILES | FAR)
    asking.engine = Engine(tmp_path / "s.db", Noting(DIMENSIONS), WalkSettings())
    asking.sync()
    calls.clear()
    asking.engine.query(QUESTION, 5, Search())
    question, follow_ups = calls
    assert question == [QUESTION] and len(follow_ups) > 1
    asking.engine.query(QUESTION, 5, Search())
    assert len(calls) == 2  # the vectors are kept


def test_names_that_lead_to_no_other_document_are_not_asked_about(tmp_path: Path) -> None:
    alone = Asking(tmp_path, {"door.md": FILM} | FAR)
    assert alone.plans()["Bronze Door"].names == ()
    found = format_answer(alone.engine.query(QUESTION, 5, Search()), Search())
    hops = [hop for passage in found["passages"] for hop in passage["hops"]]
    said = {hop["question"] for hop in hops if hop["asked_by"] == "follow_up"}
    assert said == {"Then asked the rest of the question"}


@pytest.mark.parametrize(
    ("path", "text", "touches"),
    [
        ("far/new.md", "# Gasket\n\nGasket leaks water.\n", False),
        ("mira.md", "# Mira Kaltenbrunn\n\nMira Kaltenbrunn was born in Vasterholm.\n", True),
        ("clara.md", "# Clara\n\nClara was born; where, Kaltenbrunn never told.\n", True),
    ],
)
def test_a_watched_question_is_asked_again_when_the_second_hop_changes(
    asking: Asking, path: str, text: str, touches: bool
) -> None:
    dependencies = asking.dependencies()
    asking.put(path, text)
    assert asking.touches(dependencies) == touches


def test_a_name_that_begins_to_join_documents_touches_dependent_answers(tmp_path: Path) -> None:
    asking = Asking(tmp_path, {"door.md": FILM} | FAR)
    dependencies = asking.dependencies()
    only_follow_ups = replace(dependencies, queries=(), rows=dependencies.rows[:0])
    asking.put("note.md", "# Letters\n\nMira Kaltenbrunn wrote seldom.\n")
    assert asking.touches(only_follow_ups)
    assert asking.plans()["Bronze Door"].names == ("mira kaltenbrunn",)


def test_a_new_document_that_answers_only_the_follow_up_touches_it(asking: Asking) -> None:
    dependencies = asking.dependencies()
    without = replace(dependencies, queries=dependencies.queries[:1])
    asking.put("town.md", "# records\n\nkaltenbrunn mira.\n")
    assert asking.touches(replace(dependencies, names=dependencies.names[:0]))
    assert not asking.touches(replace(without, names=dependencies.names[:0]))


FILMS = {
    "phool.md": b"# Phoolwari (film)\n\nIt came out in 1946.\n",
    "panchhi.md": b"# Aas Ka Panchhi\n\nIt came out in 1961.\n",
    "aas.md": b"# Aas\n\nA river.\n",
    **{
        f"common/{index}.md": b"# Topic%d\n\nWhich film came out first? Did it flood before s?\n"
        % index
        for index in range(40)
    },
}


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        (
            "Which film came out first, Aas Ka Panchhi or Phoolwari?",
            ["Aas Ka Panchhi", "Phoolwari (film)"],
        ),
        ("Which film came out first, aas ka panchhi or phoolwari?", []),
        ("Did Aas flood before Phoolwari's premiere?", ["Aas", "Phoolwari (film)"]),
    ],
)
def test_subjects_are_the_longest_titles_in_the_question(
    tmp_path: Path, question: str, subjects: list[str]
) -> None:
    asking = Asking(tmp_path, FILMS)
    context = asking.context(question)
    assert sorted(asking.titles(context, find_subjects(context))) == subjects


def test_several_subjects_share_the_start_equally_and_a_single_one_changes_nothing() -> None:
    seeds = np.array([0.7, 0.2, 0.1])
    shared = share_among_subjects(seeds, [1, 2])
    assert shared.tolist() == pytest.approx([0.07, 0.47, 0.46])
    assert share_among_subjects(seeds, [1]) is seeds
