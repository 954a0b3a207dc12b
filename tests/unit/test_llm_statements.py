"""What an LLM says that passages state: how it is understood, and what is made and found of it."""

import json
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.config.values import Search
from hopsyncd.errors import LlmNonsense
from hopsyncd.models.llm.budget import LlmContext, Usage
from hopsyncd.models.llm_maker import LlmOutput, LlmStatements
from hopsyncd.models.llm_questions import call_for, estimate, make_reply_model
from hopsyncd.models.llm_statements import (
    MAX_STATEMENTS,
    MAX_TOPICS,
    STATEMENTS,
    StatedPart,
    make_prompt_spec,
)
from hopsyncd.models.loading import make_question_maker
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import Direction, Passage, QuestionSet
from tests.fakes.llm import FakeLlm, asked_maker, down, stating
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

ROME = Passage(("Rome",), "It lies on the Tiber. Caesar crossed it at www.rome.example/ford.")
TIBER = {
    "statement": "Rome lies on the Tiber.",
    "facts": [{"subject": "Rome", "relation": "lies on", "object": "the Tiber"}],
}
CAESAR = {
    "statement": "Caesar crossed the Tiber.",
    "facts": [{"subject": "Caesar", "relation": "crossed", "object": "Tiber"}],
}


def reply(*topics: dict[str, Any]) -> dict[str, Any]:
    return {"passages": [{"id": 1, "topics": list(topics)}]}


def stated(reply: dict[str, Any], passages: Sequence[Passage]) -> Sequence[LlmOutput | LlmNonsense]:
    return STATEMENTS.parse_reply(
        make_reply_model(StatedPart, len(passages)).model_validate(reply), passages
    )


def topic(*statements: dict[str, Any], name: str = "Rivers") -> dict[str, Any]:
    return {"topic": name, "statements": list(statements)}


def parse_reply(*topics: dict[str, Any]) -> LlmStatements:
    (got,) = stated(reply(*topics), [ROME])
    assert isinstance(got, LlmStatements)
    return got


def made(play: Any) -> QuestionSet:
    llm = FakeLlm(play)
    ((_, got),) = next(iter(asked_maker(llm, "statements").make_each([ROME], context())))
    assert isinstance(got, QuestionSet)
    return got


def context() -> LlmContext:
    return LlmContext("", Usage())


def saying(*topics: dict[str, Any]) -> Any:
    return lambda _: json.dumps(reply(*topics))


def test_a_statement_has_its_topic_and_the_entities_of_its_facts() -> None:
    got = parse_reply(topic(TIBER, CAESAR))
    assert got.topics == {"rivers": "Rivers"}
    assert [
        (statement.text, statement.topic, list(statement.entities)) for statement in got.statements
    ] == [
        ("Rome lies on the Tiber.", "rivers", ["rome", "tiber"]),
        ("Caesar crossed the Tiber.", "rivers", ["caesar", "tiber"]),
    ]


def test_an_entity_that_its_statement_does_not_name_is_dropped() -> None:
    facts = [{"subject": "Rome", "relation": "owned by", "object": "Evil Corp"}]
    (one,) = parse_reply(topic({**TIBER, "facts": facts})).statements
    assert list(one.entities) == ["rome"]


@pytest.mark.parametrize(
    "bad",
    [
        {"statement": " \u200e ", "facts": []},
        {"statement": "x" * 401, "facts": []},
        {"statement": "Rome is at https://evil.example/rome.", "facts": []},
    ],
)
def test_a_statement_that_cannot_be_used_is_left_out(bad: dict[str, Any]) -> None:
    own = {"statement": "The ford is at www.rome.example/ford.", "facts": []}
    texts = [statement.text for statement in parse_reply(topic(bad, own, TIBER, TIBER)).statements]
    assert texts == [own["statement"], TIBER["statement"]]
    (none,) = stated(reply(topic(bad)), [ROME])
    assert isinstance(none, LlmNonsense)


def test_a_malformed_part_spoils_no_other_and_a_doubled_one_is_not_believed() -> None:
    good = {"id": 1, "topics": [topic(TIBER)]}
    parts = [good, {"id": 2, "topics": "none"}, {"id": 3, "topics": []}, {"id": 3, "topics": []}]
    first, second, third = stated({"passages": parts}, [ROME] * 3)
    assert isinstance(first, LlmStatements)
    assert isinstance(second, LlmNonsense) and isinstance(third, LlmNonsense)


def test_a_malformed_fact_or_statement_spoils_no_other() -> None:
    facts = [{"subject": "Rome", "object": 7}, *TIBER["facts"]]
    got = parse_reply(topic({"facts": []}, {**TIBER, "facts": facts}), {"topic": "no statements"})
    assert [(statement.text, list(statement.entities)) for statement in got.statements] == [
        ("Rome lies on the Tiber.", ["rome", "tiber"])
    ]


def test_the_number_of_statements_is_limited() -> None:
    many = [{"statement": f"Rome has hill {index}.", "facts": []} for index in range(99)]
    got = parse_reply(*(topic(*many[index:], name=f"Hills {index}") for index in range(9)))
    assert len(got.statements) <= MAX_STATEMENTS and len(got.topics) <= MAX_TOPICS


def test_statements_take_the_place_of_sentences_and_their_entities_raise_questions() -> None:
    got = made(saying(topic(TIBER, CAESAR)))
    told: list[tuple[Direction, str, Set[str], int]] = [
        (question.direction, question.text, question.keywords, question.vector_row)
        for question in got.questions
    ]
    assert told == [
        (Direction.INCOMING, "What is Rome?", {"rome"}, 0),
        (Direction.INCOMING, "What is Rivers?", {"rivers"}, 0),
        (Direction.INCOMING, "Rome lies on the Tiber.", {"rome", "tiber", "rivers"}, 1),
        (Direction.INCOMING, "Caesar crossed the Tiber.", {"caesar", "tiber", "rivers"}, 2),
        (Direction.OUTGOING, "What is said of the Tiber?", {"tiber"}, 1),
        (Direction.OUTGOING, "What is said of Caesar?", {"caesar"}, 2),
    ]
    assert len(got.vectors) == 3


def test_without_an_llm_a_passage_has_the_built_in_questions_for_now() -> None:
    maker = asked_maker(FakeLlm(down), "statements")
    plain = BuiltinMaker(FakeLanguage(), FakeEncoder()).make(ROME)
    provisional = maker.make_provisional(ROME)
    assert [question.text for question in provisional.questions] == [
        question.text for question in plain.questions
    ]
    assert provisional.provisional and provisional.id != made(saying(topic(TIBER))).id


def test_the_recipe_names_the_prompt_and_the_model() -> None:
    llm = FakeLlm(stating)
    config = LlmConfig(base_url="http://localhost:1/v1", model="m", questions="statements")
    maker = make_question_maker(config, FakeLanguage(), FakeEncoder(), llm)
    assert "statements+statements/1+fake temperature=0" in maker.generation.name
    assert maker.generation.name == asked_maker(llm, "statements").generation.name
    assert make_prompt_spec("both") is not STATEMENTS


def test_the_cost_is_estimated_from_the_statement_prompt() -> None:
    call = call_for([ROME], "notes", STATEMENTS)
    assert call.prompt == "statements/1" and "facts" in call.system
    assert estimate([ROME], 4, STATEMENTS).tokens > estimate([ROME], 4).tokens


NOTES = {
    "rome.md": b"# Rome\n\nIt is old. Rome lies on the Tiber. Caesar ruled Rome.\n",
    "tiber.md": b"# Tiber\n\nThe Tiber rises on Mount Fumaiolo.\n",
}


@pytest.mark.parametrize("strategy", ["statement", "topic"])
def test_both_strategies_search_the_statements_of_the_llm(tmp_path: Path, strategy: Any) -> None:
    def rewritten(call: Any) -> str:
        whole = json.loads(stating(call))
        for part in whole["passages"]:
            for statement in part["topics"][0]["statements"]:
                statement["statement"] = statement["statement"].replace("It is", "Rome is")
        return json.dumps(whole)

    maker = asked_maker(FakeLlm(rewritten), "statements")
    stack = Stack(tmp_path / "s.db", MemoryConnector(NOTES), maker)
    stack.sync()
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    search = Search(strategy, unit="statement")
    answer = engine.query("Where rises the Tiber of Rome?", 9, search)
    assert answer is not None
    texts = {answer.questions[hit.statements[-1].question] for hit in answer.ranked}
    assert "Rome is old." in texts and "It is old." not in texts
    assert any(len(hit.statements) > 1 for hit in answer.ranked)
    stack.close()
