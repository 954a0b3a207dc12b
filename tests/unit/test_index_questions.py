"""Questions from a user's own graph: what they are made of, and what keeps one from being asked."""

import json
from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest, LlmUnavailable
from hopsyncd.evaluation.index_questions import (
    Pair,
    evaluate_index,
    gives_away,
    make_index_questions,
    make_question_by_rule,
    write_questions,
)
from hopsyncd.evaluation.run import Experiment
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall
from hopsyncd.models.loading import Models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.results import format_id
from store.records import Passage
from tests.fakes.llm import FakeLlm, Play
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

DOOR = Passage(("Bronze Door",), "Bronze Door is a film by Kaltenbrunn. It lasts four hours.")
MIRA = Passage(("Kaltenbrunn",), "Kaltenbrunn was born in Ostrava. She paints in oil.")
PAIR = Pair(DOOR, MIRA, frozenset({"kaltenbrunn"}))
NOTES = {
    "door.md": b"# Bronze Door\n\nBronze Door is a film by Kaltenbrunn. It lasts four hours.\n",
    "mira.md": b"# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava. She paints in oil.\n",
    "bread.md": b"# Bread\n\nBread is baked from flour. Salt is added.\n",
}
GOOD = {"question": "Where was the maker of Bronze Door born?", "answer": "Ostrava"}
APPROVED = {"answerable": True, "needs_both": True, "natural": True}


def models() -> Models:
    encoder, language = FakeEncoder(), FakeLanguage()
    return Models(encoder, language, BuiltinMaker(language, encoder))


def indexed(folder: Path, files: dict[str, bytes]) -> Path:
    stack = Stack(folder / "s.db", MemoryConnector(files), passage_tokens=200)
    stack.sync()
    stack.close()
    return folder / "s.db"


def playing(draft: object, judgement: object = APPROVED) -> Play:
    def play(call: LlmCall) -> str:
        return json.dumps(judgement if call.prompt == "evaluation-critic/1" else draft)

    return play


def test_the_rule_makes_a_question_that_leads_over_the_shared_name() -> None:
    made = make_question_by_rule(PAIR, FakeLanguage())
    assert made is not None
    assert made.question == ("Bronze Door is a film by this one. This one was born in which place?")
    assert made.answers == ("Ostrava",)
    assert made.gold == {format_id(DOOR.id), format_id(MIRA.id)}


def test_a_sentence_without_its_title_is_led_by_it() -> None:
    source = Passage(("Bronze Door",), "A film by Kaltenbrunn is shown.")
    made = make_question_by_rule(Pair(source, MIRA, PAIR.names), FakeLanguage())
    assert made is not None
    assert made.question.startswith("Bronze Door: A film by this one is shown. ")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Bronze Door is a film by Kaltenbrunn in Ostrava.", MIRA.text),
        (DOOR.text, "She was born in Ostrava."),
        (DOOR.text, "Kaltenbrunn paints."),
        ("Bronze Door is a film.", MIRA.text),
    ],
)
def test_no_question_is_made_that_one_passage_answers(source: str, target: str) -> None:
    pair = Pair(Passage(DOOR.heading, source), Passage(MIRA.heading, target), PAIR.names)
    assert make_question_by_rule(pair, FakeLanguage()) is None


@pytest.mark.parametrize(
    ("question", "given_away"),
    [
        ("Where was Mira Kaltenbrunn born?", True),
        ("Where was Ms Kaltenbrunn born?", True),
        ("Where was the director born?", False),
    ],
)
def test_a_question_must_not_name_its_second_passage(question: str, given_away: bool) -> None:
    assert gives_away(question, Passage(("Films", "Mira Kaltenbrunn"), "x")) == given_away


def test_questions_of_an_index_are_drawn_by_the_seed_and_asked_of_it(tmp_path: Path) -> None:
    database = indexed(tmp_path, NOTES)
    own = make_index_questions(database, models(), 5, 0, None, Usage())
    assert own.questions == make_index_questions(database, models(), 5, 0, None, Usage()).questions
    assert [question.answers for question in own.questions] == [("Ostrava",)]
    result = evaluate_index(
        database,
        5,
        0,
        Experiment({"hop": Search(), "bm25": Search("bm25")}, models()),
        by_llm=False,
    )
    assert result.scores["hop"].recall[2] == 100.0
    assert result.passages == 3


@pytest.mark.parametrize("files", [{}, {"bread.md": NOTES["bread.md"]}])
def test_an_index_without_joined_documents_has_nothing_to_ask(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    with pytest.raises(BadRequest, match="Cannot make questions"):
        make_index_questions(indexed(tmp_path, files), models(), 5, 0, None, Usage())


def test_a_missing_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.db"):
        make_index_questions(tmp_path / "none.db", models(), 5, 0, None, Usage())
    assert not (tmp_path / "none.db").exists()


def test_an_llm_writes_a_question_and_criticises_it() -> None:
    llm = FakeLlm(playing(GOOD))
    (made,) = write_questions([PAIR], llm, Usage())
    assert (made.question, made.answers) == (GOOD["question"], ("Ostrava",))
    assert made.gold == {format_id(DOOR.id), format_id(MIRA.id)}
    assert [call.prompt for call in llm.calls] == ["evaluation/1", "evaluation-critic/1"]
    assert all(call.purpose == "evaluation" for call in llm.calls)
    assert json.loads(llm.calls[0].user)["second"]["text"] == MIRA.text


@pytest.mark.parametrize(
    "draft",
    [
        GOOD | {"question": "Where was Kaltenbrunn born?"},
        GOOD | {"answer": "Prague"},
        GOOD | {"answer": ""},
        GOOD | {"question": " "},
        GOOD | {"question": "Where? " * 100},
    ],
)
def test_a_question_that_is_unsound_is_not_even_criticised(draft: dict[str, str]) -> None:
    llm = FakeLlm(playing(draft))
    assert write_questions([PAIR], llm, Usage()) == []
    assert len(llm.calls) == 1


@pytest.mark.parametrize("flaw", APPROVED)
def test_a_question_that_the_critic_rejects_is_dropped(flaw: str) -> None:
    assert write_questions([PAIR], FakeLlm(playing(GOOD, APPROVED | {flaw: False})), Usage()) == []


def test_an_llm_that_is_down_is_an_error() -> None:
    error = LlmUnavailable("No answer came", "the endpoint is down", "Start it")
    with pytest.raises(LlmUnavailable):
        write_questions([PAIR], FakeLlm(lambda _: error), Usage())
