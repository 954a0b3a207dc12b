"""Evaluation on real documents: evidence by quote, an index that is kept, what became of each."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.measures import is_held, is_right
from hopsyncd.evaluation.real_folder import QuotedQuestion, make_source, measure_folder, read_quoted
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.report import Measured, format_evaluation, format_question_lines
from hopsyncd.evaluation.run import Answers, Evaluation, Experiment
from hopsyncd.models.loading import Models
from hopsyncd.models.questions import BuiltinMaker
from tests.fakes.models import FakeEncoder, FakeLanguage

SEARCHES = {name: Search(name) for name in ("hop", "bm25")}
LONG = " ".join(f"Sentence {n} speaks of nothing that anybody would ask about." for n in range(80))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "documents"
    (made / "people").mkdir(parents=True)
    (made / "people/ada.md").write_text(
        "# Ada\n\nAda lives\nin **Upper Wick**.\n\n## Work\n\nMills.\n"
    )
    (made / "wick.md").write_text("# Upper Wick\n\nA windmill was built by Tove.\n")
    (made / "long.txt").write_text(LONG)
    for number in range(30):
        (made / f"filler-{number}.md").write_text(f"# Filler {number}\n\nOnly filler {number}.\n")
    return made


def line(kind: str, *evidence: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    quotes = [[{"document": one, "quote": text} for one, text in pairs] for pairs in evidence]
    told = {"id": kind, "kind": kind, "question": "Where does Ada live?", "answers": ["Wick"]}
    return {**told, "evidence": quotes, **more}


def read(folder: Path, *lines: dict[str, Any]) -> list[QuotedQuestion]:
    file = folder.parent / "questions.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return read_quoted(file)


def measured(
    folder: Path,
    *lines: dict[str, Any],
    encoder: FakeEncoder | None = None,
    answers: Answers = "none",
) -> Evaluation:
    encoder, language = encoder or FakeEncoder(), FakeLanguage()
    return measure_folder(
        folder.parent / "kept",
        make_source(folder),
        read(folder, *lines),
        Config(),
        Experiment(
            SEARCHES,
            Models(encoder, language, BuiltinMaker(language, encoder)),
            answers=answers,
        ),
    )


def test_a_quote_is_found_through_white_space_and_markup(folder: Path) -> None:
    asked = line("single", [("people/ada.md", "Ada lives in **Upper Wick**")])
    result = measured(folder, asked)
    assert result.unread == ()
    assert result.scores["bm25"].whole[5] == 100.0
    assert result.scores["bm25"].reciprocal_rank == 1


def test_any_alternative_evidence_counts(folder: Path) -> None:
    missing, there = ("wick.md", "A windmill was never built"), ("people/ada.md", "Ada lives")
    assert measured(folder, line("single", [missing, there])).scores["bm25"].whole[5] == 100.0


def test_a_quote_from_another_document_does_not_count(folder: Path) -> None:
    result = measured(folder, line("single", [("wick.md", "Ada lives in Upper Wick")]))
    assert result.unread == ("wick.md: Ada lives in Upper Wick",)
    (told,) = result.missing["single"].missing
    assert told.cause == "not read"


def test_of_two_passages_with_a_part_each_the_larger_part_counts(folder: Path) -> None:
    """The long text is cut somewhere: quotes over every border of two sentences are all found."""
    ends = [f"nothing that anybody would ask about. Sentence {n} speaks" for n in range(1, 80)]
    lines = [line("single", [("long.txt", end)], id=end) for end in ends]
    result = measured(folder, *lines)
    assert result.passages > 33
    assert result.unread == ()


def test_measures_are_reported_by_kind_and_unanswerable_questions_have_no_recall(
    folder: Path,
) -> None:
    ada, wick = ("people/ada.md", "Ada lives"), ("wick.md", "A windmill")
    lines = [line("single", [ada]), line("multi", [ada], [wick]), line("none", answers=[])]
    told = format_evaluation(Measured("", [], SEARCHES, measured(folder, *lines)))
    assert told["kinds"].keys() == {"single", "multi"}
    assert told["kinds"]["single"]["bm25"]["all@5"] == 100
    assert told["kinds"]["multi"]["bm25"]["all@5"] == 0
    assert told["kinds"]["multi"]["bm25"]["recall@5"] == 50
    assert told["strategies"]["bm25"]["recall@5"] == 75


def test_answers_are_judged_by_what_is_shown(folder: Path) -> None:
    here = line("single", [("people/ada.md", "Ada lives")], answers=["Upper Wick", "Upper"])
    gone = line("none", question="How many moons orbit Neptune?", answers=[])
    scores = measured(folder, here, gone, answers="extractive").answers["bm25"]
    assert scores
    assert (scores.held, scores.refused_wrongly, scores.refused_rightly) == (100.0, 0.0, 100.0)


def test_a_missing_passage_is_reported_with_its_cause_and_the_results_above_it(
    folder: Path,
) -> None:
    asked = line("single", [("long.txt", "Sentence 40 speaks of nothing")])
    result = measured(folder, asked)
    (told,) = [
        one
        for one in map(json.loads, format_question_lines(result).splitlines())
        if "missing" in one
    ]
    assert told["search"] == "hop"
    assert told["missing"][0]["cause"] in ("not seeded", "ranked out")
    assert told["behind"][0] == "people/ada.md > Ada"


def test_only_changed_texts_are_encoded_again(folder: Path) -> None:
    asked, encoder = line("single", [("people/ada.md", "Ada lives")]), FakeEncoder()
    measured(folder, asked, encoder=encoder)
    first, encoder.encoded = encoder.encoded, 0
    measured(folder, asked, encoder=encoder)
    questions = encoder.encoded
    (folder / "wick.md").write_text("# Upper Wick\n\nA water mill was built by Tove.\n")
    encoder.encoded = 0
    changed = measured(folder, line("single", [("wick.md", "A water mill")]), encoder=encoder)
    assert encoder.encoded - questions <= 4 < first
    assert changed.unread == ()


def test_kept_vectors_are_the_encoders_own_and_outlive_the_process(tmp_path: Path) -> None:
    encoder, texts = FakeEncoder(), ["one two", "three", "one two"]
    first = VectorCache(encoder, tmp_path).encode(texts)
    assert np.array_equal(first, FakeEncoder().encode(texts))
    encoder.encoded = 0
    assert np.array_equal(VectorCache(encoder, tmp_path).encode(texts), first)
    assert encoder.encoded == 0


def test_half_a_record_of_a_killed_process_is_dropped(tmp_path: Path) -> None:
    encoder = FakeEncoder()
    VectorCache(encoder, tmp_path).encode(["one", "two"])
    (file,) = tmp_path.glob("*.vectors")
    file.write_bytes(file.read_bytes()[:-5])
    again = VectorCache(encoder, tmp_path)
    assert np.array_equal(again.encode(["two", "three"]), encoder.encode(["two", "three"]))
    encoder.encoded = 0
    VectorCache(encoder, tmp_path).encode(["one", "two", "three"])
    assert encoder.encoded == 0


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"id": "a", "kind": "single"}, "the key 'question' is missing"),
        (line("double", [("a", "b")]), "the kind 'double' is not one of"),
        (line("none", [("a", "b")]), "the kind none does not fit `evidence`"),
        (line("multi"), "the kind multi does not fit `evidence`"),
        (line("none"), "no question has an answer"),
        (line("single", []), "the kind single does not fit `evidence`"),
    ],
)
def test_a_bad_question_is_named(folder: Path, bad: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=r"questions\.jsonl:1") as refused:
        read(folder, bad)
    assert told in str(refused.value)
    assert "evidence" in refused.value.hint


def test_a_folder_without_documents_cannot_be_measured(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    with pytest.raises(BadRequest, match="the folder has no documents"):
        measured(tmp_path / "documents", line("single", [("a.md", "b")]))


@pytest.mark.parametrize(
    ("short", "golds", "right"),
    [
        ("three years", ["3 years"], True),
        ("the 50,000 objects", ["50000"], True),
        ("600 seconds", ["1 and 600 seconds"], False),
        ("8", ["one year"], False),
        ("no one", ["no"], False),
        ("No", ["no"], True),
        ("", ["x"], False),
    ],
)
def test_a_short_answer_is_right_if_it_says_a_gold_one(
    short: str, golds: list[str], right: bool
) -> None:
    assert is_right(short, golds) is right


def test_a_sentence_holds_an_answer_by_whole_words() -> None:
    assert is_held(["It may take up to two weeks."], ["2 weeks"])
    assert not is_held(["It may take 12 weeks."], ["2 weeks"])
    assert not is_held(["There is no way."], ["no"])
