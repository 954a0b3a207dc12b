"""Question sets with asked questions: what is in them, beside the built-in ones or alone."""

import json
from pathlib import Path

import pytest

from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.recordings import make_recorded_maker
from hopsyncd.models.llm.budget import LlmContext, Usage
from hopsyncd.models.llm_maker import LlmQuestionMaker, Mode
from hopsyncd.models.questions import BuiltinMaker
from store.records import Direction, Passage, QuestionSet, compute_set_id, to_grid
from tests.fakes.llm import FakeLlm, asked_maker
from tests.fakes.models import FakeEncoder, FakeLanguage

ROME = Passage(("Rome",), "Rome met Carthage. Carthage lost.")
ODD = Passage((), "nothing of note")
Line = dict[str, object]
LINES: list[Line] = [
    {"id": "r", "incoming": ["Who met Carthage?"], "outgoing": ["Who was Hannibal?", "Why war?"]},
    {"id": "o", "incoming": ["What is of note?"], "outgoing": []},
    {"id": "unused", "incoming": [], "outgoing": []},
]


def recorded(folder: Path, mode: Mode, lines: list[Line]) -> LlmQuestionMaker:
    file = folder / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    corpus = {"r": ROME, "o": ODD}
    return make_recorded_maker(file, corpus, FakeLanguage(), FakeEncoder(), mode)


def made(maker: LlmQuestionMaker, passage: Passage) -> QuestionSet:
    ((_, got),) = next(iter(maker.make_each([passage], LlmContext("", Usage()))))
    assert isinstance(got, QuestionSet)
    return got


def texts(questions: QuestionSet, direction: Direction) -> list[str]:
    return [q.text for q in questions.questions if q.direction is direction]


def test_in_llm_mode_a_passage_has_only_the_llm_questions(tmp_path: Path) -> None:
    got = made(recorded(tmp_path, "llm", LINES), ROME)
    assert texts(got, Direction.INCOMING) == ["Who met Carthage?"]
    assert texts(got, Direction.OUTGOING) == ["Who was Hannibal?", "Why war?"]
    assert [q.keywords for q in got.questions] == [{"carthage"}, {"hannibal"}, set()]
    wanted = ["Rome\nRome met Carthage. Carthage lost.", *(q.text for q in got.questions)]
    assert (got.vectors == to_grid(FakeEncoder().encode(wanted))).all()
    assert [q.vector_row for q in got.questions] == [1, 2, 3]


def test_in_both_mode_the_built_in_questions_come_first(tmp_path: Path) -> None:
    got = made(recorded(tmp_path, "both", LINES), ROME)
    plain = BuiltinMaker(FakeLanguage(), FakeEncoder()).make(ROME)
    for direction, asked in (
        (Direction.INCOMING, ["Who met Carthage?"]),
        (Direction.OUTGOING, ["Who was Hannibal?", "Why war?"]),
    ):
        assert texts(got, direction) == texts(plain, direction) + asked
    assert (got.vectors[: len(plain.vectors)] == plain.vectors).all()
    assert len({q.id for q in got.questions}) == len(got.questions)


def test_a_passage_without_outgoing_questions_has_none(tmp_path: Path) -> None:
    got = made(recorded(tmp_path, "llm", LINES), ODD)
    assert texts(got, Direction.OUTGOING) == []


def test_a_missing_line_is_an_error_that_says_how_many(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no questions for 1 of 2 passages, such as o"):
        recorded(tmp_path, "both", LINES[:1])


@pytest.mark.parametrize(
    "line", [{"id": "r"}, {"incoming": [], "outgoing": []}, {**LINES[0], "incoming": [1]}]
)
def test_the_error_names_the_malformed_line(tmp_path: Path, line: Line) -> None:
    with pytest.raises(BadRequest, match="jsonl:3"):
        recorded(tmp_path, "both", [*LINES[:2], line])


def test_the_recorded_questions_and_their_mode_name_the_settings(tmp_path: Path) -> None:
    other = [{**LINES[0], "incoming": ["Who?"]}, *LINES[1:]]
    uses: list[tuple[Mode, list[Line]]] = [
        ("both", LINES),
        ("llm", LINES),
        ("both", other),
        ("both", LINES),
    ]
    names = [recorded(tmp_path, mode, lines).generation.name for mode, lines in uses]
    assert len(set(names)) == 3
    assert names[0] == names[3]
    assert "questions/1+fake temperature=0" in asked_maker(FakeLlm()).generation.name


def test_a_provisional_set_is_the_built_in_set_under_an_id_of_its_own() -> None:
    maker, plain = asked_maker(FakeLlm(), "llm"), BuiltinMaker(FakeLanguage(), FakeEncoder())
    got, wanted = maker.make_provisional(ROME), plain.make(ROME)
    assert got.provisional
    assert got.id == compute_set_id(ROME.id, maker.generation.name, provisional=True)
    assert got.id != made(maker, ROME).id
    assert [q.text for q in got.questions] == [q.text for q in wanted.questions]
    assert (got.vectors == wanted.vectors).all()


def test_without_an_account_no_llm_is_called() -> None:
    llm = FakeLlm()
    results = [r for group in asked_maker(llm).make_each([ROME, ODD], None) for r in group]
    assert [passage for passage, _ in results] == [ROME, ODD]
    assert not any(isinstance(got, QuestionSet) for _, got in results)
    assert llm.calls == []
