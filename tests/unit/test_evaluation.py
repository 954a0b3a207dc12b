"""The evaluation: what its files must be, and that its measures are those of the definition."""

import json
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.data import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.run import Evaluation, evaluate
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.strategy import STRATEGIES, Search
from hopsyncd.text.questions import BuiltinMaker
from store.records import Passage
from tests.fakes.models import FakeEncoder, FakeLanguage

CORPUS = {
    "a": Passage(("Ada",), "Ada lives in Upper Wick."),
    "b": Passage(("Upper Wick",), "A windmill stands on the hill."),
    **{f"x{n}": Passage((f"Filler {n}",), f"Nothing but filler number {n}.") for n in range(30)},
}


def written(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def measured(folder: Path, *questions: GoldQuestion) -> Evaluation:
    encoder = FakeEncoder()
    return evaluate(
        folder,
        CORPUS,
        questions,
        {name: Search(name) for name in STRATEGIES},
        encoder,
        BuiltinMaker(FakeLanguage(), encoder),
        budget_factor=1.0,
        walk=WalkSettings(),
    )


def asked(question: str, *gold: str) -> GoldQuestion:
    return GoldQuestion("q", question, (), frozenset(gold))


def test_lines_become_passages_with_their_title_as_heading(tmp_path: Path) -> None:
    lines = [{"id": "a", "title": "T", "text": "x"}, {"id": 2, "title": "", "text": "y"}]
    file = written(tmp_path / "c.jsonl", lines)
    assert read_corpus(file) == {"a": Passage(("T",), "x"), "2": Passage((), "y")}


def test_questions_name_gold_passages(tmp_path: Path) -> None:
    line = {"id": "q1", "question": "who?", "answers": ["me"], "gold": ["a", "b"]}
    (question,) = read_questions(written(tmp_path / "q.jsonl", [line]), CORPUS)
    assert question == GoldQuestion("q1", "who?", ("me",), frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"id": "a", "text": "x"}\n\n{"id": "b"}\n', ":3: the key 'text' is missing"),
        ('{"text": "x"}\n', ":1: the key 'id' is missing"),
        ('{"id": "a", "text": "x"}\n["a"]\n', ":2: it is no JSON object"),
        ('{"id": "a", "text": "x"}\n{"id":\n', ":2: it is no JSON"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', ":2: the id 'a' is there already"),
        ("", ":1: there is no passage in it"),
    ],
)
def test_a_bad_corpus_line_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_corpus(file)
    assert f"{file}{told}" in str(refused.value)
    assert "{id, title, text}" in refused.value.hint


def test_a_corpus_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_bytes(b'{"id": "a", "text": "x"}\n{"id": "b", "text": "caf\xe9"}\n')
    with pytest.raises(BadRequest, match=r"c\.jsonl:2.*UTF-8"):
        read_corpus(file)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"id": "q", "question": "who?"}, "the key 'gold' is missing"),
        ({"id": "q", "gold": ["a"]}, "the key 'question' is missing"),
        ({"id": "q", "question": "who?", "gold": []}, "gold is not in the corpus: empty"),
        ({"id": "q", "question": "who?", "gold": ["zz"]}, "gold is not in the corpus: ['zz']"),
        ({"id": "q", "question": "who?", "gold": 3}, "another type"),
    ],
)
def test_a_bad_question_line_is_named(tmp_path: Path, line: dict[str, Any], told: str) -> None:
    good = {"id": "g", "question": "who?", "gold": ["a"]}
    file = written(tmp_path / "q.jsonl", [good, line])
    with pytest.raises(BadRequest) as refused:
        read_questions(file, CORPUS)
    assert f"{file}:2" in str(refused.value)
    assert told in str(refused.value)


def test_recall_is_the_share_of_gold_passages_found(tmp_path: Path) -> None:
    """By its words the question finds one of its two gold passages first, and only that one."""
    result = measured(tmp_path, asked("Where does Ada live?", "a", "b"))
    words = result.scores["bm25"]
    assert words.recall == {2: 50.0, 5: 50.0, 10: 50.0, 20: 50.0}
    assert words.all_at_5 == 0.0


def test_the_walk_finds_the_second_hop(tmp_path: Path) -> None:
    result = measured(tmp_path, asked("Where does Ada live?", "a", "b"))
    assert result.scores["hop"].recall[5] == 100.0
    assert result.scores["hop"].all_at_5 == 100.0


def test_measures_are_means_over_the_questions(tmp_path: Path) -> None:
    found, half = asked("Ada", "a"), asked("Ada", "a", "b")
    words = measured(tmp_path, found, half).scores["bm25"]
    assert words.recall[2] == 75.0
    assert words.all_at_5 == 50.0


def test_it_says_what_was_indexed_and_how_long_it_took(tmp_path: Path) -> None:
    result = measured(tmp_path, asked("Ada", "a"))
    assert result.scores.keys() == set(STRATEGIES)
    assert result.passages == len(CORPUS)
    assert result.edges > 0
    assert result.index_s > 0
    for scores in result.scores.values():
        assert 0 < scores.ms_p50 <= scores.ms_p95
