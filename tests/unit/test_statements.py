"""Searches over statements: seeds, paths along shared names, topics, and what is shown of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.vectors import Codes, VectorTable
from hopsyncd.retrieve import query_context
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.likeness import Likeness
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.results import Answer, format_answer
from hopsyncd.retrieve.strategies.statements import (
    StatementGraph,
    find_statement_starts,
    find_topic_starts,
    search_paths,
)
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import (
    Direction,
    PassageId,
    Question,
    QuestionId,
    QuestionSet,
    SetId,
    Vectors,
    to_grid,
)
from tests.fakes.indexed import asked, document, indexed
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

EAST, NORTH, NORTHEAST, WEST = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (-1.0, 0.0)
STATEMENT = Search("statement")
TOPIC = Search("topic")


def said(number: int, *statements: tuple[str, tuple[float, float]], topic: str = "") -> QuestionSet:
    """A passage of these statements: names and direction of each."""
    questions = [
        Question(
            QuestionId(100 * number + index),
            Direction.INCOMING,
            "",
            frozenset(names.split()),
            index,
        )
        for index, (names, _) in enumerate(statements, 1)
    ]
    if topic:
        about = Question(QuestionId(100 * number), Direction.INCOMING, "", frozenset([topic]), 0)
        questions.insert(0, about)
    vectors = to_grid(np.array([WEST, *(vector for _, vector in statements)]))
    return QuestionSet(SetId(number), PassageId(number), tuple(questions), vectors)


def graph_of(
    snapshot: Snapshot, question: tuple[float, float], names: Sequence[str] = ()
) -> StatementGraph:
    vector = to_grid(np.array([question]))[0]
    context = asked(snapshot, names=dict.fromkeys(names, 1.0))
    return StatementGraph(replace(context, likeness=Likeness(snapshot, vector)), vector)


def ids(graph: StatementGraph, statements: Sequence[int]) -> list[int]:
    found: list[int] = graph.get_ids(np.array(statements, dtype=np.int64)).tolist()
    return found


@pytest.mark.parametrize("search", [STATEMENT, TOPIC])
def test_a_search_by_statements_compares_all_vectors_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: Search
) -> None:
    compared, start = list[int](), VectorTable.start_cosines

    def count(vectors: VectorTable, vector: Vectors, codes: Codes) -> object:
        compared.append(len(codes))
        return start(vectors, vector, codes)

    stack = Stack(tmp_path / "s.db", MemoryConnector({"rome.md": b"Rome met Caesar in Oslo.\n"}))
    stack.sync()
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    monkeypatch.setattr(query_context, "FEW_VECTORS", 0)
    monkeypatch.setattr(VectorTable, "start_cosines", count)
    engine.query("Who met Caesar?", 5, search)
    assert compared == [len(stack.writer.index.vectors)]
    stack.close()


def test_a_path_grows_along_a_shared_name_while_its_score_rises() -> None:
    served = indexed(
        [said(1, ("rome", EAST)), said(2, ("rome tiber", NORTH)), said(3, ("tiber", WEST))]
    )
    graph = graph_of(served, NORTHEAST)
    (start,) = [
        one
        for one in graph.make_paths(graph.find_nearest(9))
        if ids(graph, one.statements) == [101]
    ]
    paths = search_paths(graph, start, depth=3, beam=2)
    assert [ids(graph, path.statements) for path in paths] == [[101], [101, 201]]
    assert [round(path.score, 3) for path in paths] == [0.707, 1.0]


def test_the_path_counts_a_statement_by_its_softmax_attention() -> None:
    served = indexed([said(1, ("rome", EAST)), said(2, ("rome", NORTH))])
    question = (0.8, 0.6)
    graph = graph_of(served, question)
    start = next(
        one
        for one in graph.make_paths(graph.find_nearest(9))
        if ids(graph, one.statements) == [101]
    )
    _, longer = search_paths(graph, start, depth=1, beam=1)
    east, north = np.exp([0.8, 0.6]) / np.exp([0.8, 0.6]).sum()
    whole = np.array([east, north])
    assert longer.score == pytest.approx(whole @ question / np.linalg.norm(whole), abs=1e-4)
    assert graph.compute_attention(np.array(longer.statements)) == pytest.approx(
        [east, north], abs=1e-4
    )


def test_a_path_never_returns_to_a_passage() -> None:
    served = indexed([said(1, ("rome", EAST), ("rome", NORTH))])
    graph = graph_of(served, NORTHEAST)
    for start in graph.make_paths(graph.find_nearest(9)):
        assert search_paths(graph, start, depth=3, beam=3) == [start]


def test_the_beam_keeps_the_best_paths_of_a_round() -> None:
    served = indexed(
        [said(1, ("rome", EAST)), said(2, ("rome", NORTH)), said(3, ("rome", (-0.2, 1.0)))]
    )
    graph = graph_of(served, NORTHEAST)
    start = next(
        one
        for one in graph.make_paths(graph.find_nearest(9))
        if ids(graph, one.statements) == [101]
    )
    kept = {
        beam: [ids(graph, path.statements) for path in search_paths(graph, start, 1, beam)]
        for beam in (1, 2)
    }
    assert kept == {1: [[101], [101, 201]], 2: [[101], [101, 201], [101, 301]]}


def test_a_search_begins_with_what_is_like_the_question_and_with_what_has_its_names() -> None:
    served = indexed(
        [
            said(1, ("rome", EAST)),
            said(2, ("oslo", WEST), ("oslo tiber", WEST), ("tiber", NORTH)),
            said(3, ("paris", WEST)),
        ]
    )
    graph = graph_of(served, EAST, ["oslo", "tiber"])
    assert ids(graph, find_statement_starts(graph, 1).tolist()) == [101, 202]


def test_the_nearest_are_found_however_many_rows_are_no_statements() -> None:
    served = indexed([said(number, ("rome", EAST)) for number in range(1, 9)])
    graph = graph_of(served, WEST)  # every passage as a whole is nearer than any statement
    assert ids(graph, graph.find_nearest(3).tolist()) == [101, 201, 301]
    assert len(graph.find_nearest(50)) == 8


def test_a_topic_brings_the_statements_of_all_its_passages_in_a_document() -> None:
    passages = [
        said(1, ("rome", EAST), topic="rome"),
        said(2, ("rome caesar", WEST), topic="rome"),
        said(3, ("rome", WEST), topic="rome"),
    ]
    documents = [document(0, "a.md", [1, 2]), document(1, "b.md", [3])]
    graph = graph_of(indexed(passages, documents), EAST)
    starts = ids(graph, find_topic_starts(graph, 9).tolist())
    assert starts[:2] == [101, 201]


FILES = {
    "rome.md": b"# Rome\n\nThe river of Rome is the Tiber.\n\nRome has seven hills and walls.\n",
    "tiber.md": b"# Tiber\n\nThe Tiber rises at Mount Fumaiolo in the north.\n",
    "copy.md": b"# Copy\n\nThe river of Rome is the Tiber.\n",
}
QUESTION = "Where rises the river of Rome?"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    made = Stack(tmp_path / "s.db", MemoryConnector(FILES), budget_factor=10)
    made.sync()
    return made


def serving(stack: Stack, tmp_path: Path, reranker: object = None) -> Engine:
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings(), reranker=reranker)  # type: ignore[arg-type]
    engine.publish(stack.writer.make_snapshot(stack.head))
    return engine


def asked_of(engine: Engine, search: Search, k: int = 10) -> Answer:
    answer = engine.query(QUESTION, k, search)
    assert answer is not None
    return answer


def shown(answer: Answer) -> list[str]:
    return [answer.questions[hit.statements[-1].question] for hit in answer.ranked]


@pytest.mark.parametrize("search", [STATEMENT, TOPIC], ids=str)
def test_statements_are_found_with_the_path_that_led_to_them(
    stack: Stack, tmp_path: Path, search: Search
) -> None:
    answer = asked_of(serving(stack, tmp_path), replace(search, unit="statement"))
    found = format_answer(answer, search)["passages"]
    assert all(passage["statements"][-1]["text"] in passage["text"] for passage in found)
    assert all(passage["statements"][-1]["passage"] == passage["id"] for passage in found)
    (far,) = (passage for passage in found if len(passage["statements"]) > 1)
    assert [statement["name"] for statement in far["statements"]] == [None, "Tiber"]
    (hop,) = far["hops"]
    assert [hop[end]["id"] for end in ("from", "to")] == [
        statement["passage"] for statement in far["statements"]
    ]


@pytest.mark.parametrize("search", [STATEMENT, TOPIC], ids=str)
def test_a_statement_in_two_passages_is_shown_once(
    stack: Stack, tmp_path: Path, search: Search
) -> None:
    texts = shown(asked_of(serving(stack, tmp_path), replace(search, unit="statement")))
    assert len(set(texts)) == len(texts) == 3


def test_with_rerank_cosine_the_paths_do_not_affect_the_order_of_statements(
    stack: Stack, tmp_path: Path
) -> None:
    engine = serving(stack, tmp_path)
    answer = asked_of(engine, replace(STATEMENT, unit="statement", rerank="cosine"))
    by_path = asked_of(engine, replace(STATEMENT, unit="statement", rerank="none"))
    mean = asked_of(engine, replace(STATEMENT, unit="statement"))
    assert [hit.score for hit in answer.ranked] == sorted(
        (hit.score for hit in answer.ranked), reverse=True
    )
    assert {hit.passage for hit in answer.ranked} == {hit.passage for hit in by_path.ranked}
    assert [hit.score for hit in answer.ranked] != [hit.score for hit in by_path.ranked]
    scores = [{hit.passage: hit.score for hit in found.ranked} for found in (by_path, answer, mean)]
    served, vector = mean.snapshot, engine.encode(QUESTION)
    context = QueryContext.build(QUESTION, vector, served, lambda _: {})
    whole = (
        context.compute_first_cosines(served.passage_rows) + context.by_words[served.passage_rows]
    )
    of_passages = dict(
        zip(served.passage_ids[served.passage_rows].tolist(), whole.tolist(), strict=True)
    )
    assert scores[2] == {
        one: (scores[0][one] + scores[1][one] + of_passages[one]) / 4 for one in scores[2]
    }


def test_a_cross_encoder_reads_the_statements(stack: Stack, tmp_path: Path) -> None:
    class ByLength:
        def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
            assert question == QUESTION
            return [float(len(text)) for text in texts]

    search = replace(STATEMENT, unit="statement", rerank="cross-encoder")
    texts = shown(asked_of(serving(stack, tmp_path, ByLength()), search))
    assert texts == sorted(texts, key=len, reverse=True)
    with pytest.raises(BadRequest, match="no reranker is configured"):
        asked_of(serving(stack, tmp_path), search)
