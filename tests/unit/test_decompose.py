"""A question in parts: by an LLM, and by rule."""

import json

import pytest

from hopsyncd.errors import LlmUnavailable
from hopsyncd.models.llm.budget import Usage
from hopsyncd.retrieve.strategies.plain import MAX_PARTS, decompose_by_llm, split_question
from tests.fakes.llm import FakeLlm

QUESTION = "Who directed the film in which Mira Kaltenbrunn played, and where was he born?"


def test_the_rule_takes_the_clauses_that_use_a_known_name() -> None:
    question = "Who directed the film in which Mira Kaltenbrunn played in 1990, and lives in Cork?"
    known = {"mira kaltenbrunn", "cork"}.intersection
    assert split_question(question, known) == [question, "Mira Kaltenbrunn played in 1990"]
    assert split_question(question, set[str]().intersection) == [question]


def test_a_question_in_one_clause_is_asked_once() -> None:
    assert split_question("Mira Kaltenbrunn was born", {"mira kaltenbrunn"}.intersection) == [
        "Mira Kaltenbrunn was born"
    ]


def test_the_number_of_parts_is_limited() -> None:
    long = ", ".join(f"this is about Lisbon {n}" for n in range(50))
    assert len(split_question(long, {"lisbon"}.intersection)) == MAX_PARTS


def test_an_llm_splits_the_question_and_the_whole_comes_first() -> None:
    llm = FakeLlm(lambda _: '{"questions": ["Who directed it?", " ", "Who directed it?"]}')
    assert decompose_by_llm(QUESTION, llm, Usage()) == [QUESTION, "Who directed it?"]
    (call,) = llm.calls
    assert (call.purpose, call.prompt) == ("decomposition", "decomposition/1")
    assert json.loads(call.user) == {"question": QUESTION}


def test_however_many_parts_an_llm_names_they_are_limited() -> None:
    llm = FakeLlm(lambda _: json.dumps({"questions": [f"{n} {'x' * 9999}" for n in range(99)]}))
    parts = decompose_by_llm(QUESTION, llm, Usage())
    assert len(parts) == MAX_PARTS
    assert max(map(len, parts)) <= 500


def test_an_error_of_the_llm_is_raised() -> None:
    down = LlmUnavailable("The LLM gave no answer", "the endpoint is down", "Start it")
    with pytest.raises(LlmUnavailable):
        decompose_by_llm(QUESTION, FakeLlm(lambda _: down), Usage())
