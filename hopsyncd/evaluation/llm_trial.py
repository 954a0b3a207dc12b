"""Tests the configured LLM with a question about made-up documents: `hopsyncd llm test`.

The prompt may be as long as a prompt of `ask`. The question needs the first and the last passage,
so the test detects a server that drops the beginning of a long prompt. No text of the user is sent.
"""

import time
from dataclasses import dataclass

from hopsyncd.errors import LlmNonsense
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm, ask
from hopsyncd.models.llm.tokens import count_tokens
from hopsyncd.retrieve.answering.llm_answer import (
    AnswerReply,
    AskedQuestion,
    call_for,
    check_reply,
    compute_room,
)
from hopsyncd.retrieve.excerpts import Excerpt
from hopsyncd.retrieve.material import Material
from hopsyncd.retrieve.sentences import PassageTexts
from store.reads import Place
from store.records import Passage, PassageId

QUESTION = "In which year was the bridge over the river Ossel built by the engineer of Tarn Mill?"
ANSWER = "1874"
_FIRST = "The engineer of Tarn Mill was Berta Quill, who came from the coast."
_LAST = "Berta Quill built the bridge over the river Ossel in 1874, and it still stands."
_FILLING = (
    "The mill of {place} grinds rye and wheat for the villages around it. It was repaired in"
    " {year} by the brothers {name}, and {name} the younger kept its books. Its wheel turns with"
    " the water of a brook that comes from the hills, and stops when the brook freezes."
)
_PLACES = "Arden Birk Corvey Dunmore Elsing Farrow Gelden Hoy Ilmen Jarrow Kessel Lund".split()
_NAMES = "Abel Brand Corell Dorn Ekman Falk Gray Holm Iversen Jensen Krall Lang".split()


class _Stopwatch:
    """Measures when the first word of a reply arrives, and counts unusable replies."""

    def __init__(self) -> None:
        self.first_s: float | None = None
        self.withdrawn: list[str] = []

    def write(self, text: str) -> None:
        if text.strip() and self.first_s is None:
            self.first_s = time.perf_counter()

    def withdraw(self, why: str) -> None:
        self.withdrawn.append(why)
        self.first_s = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of the test question.

    first_s: the seconds until the first word; None if the endpoint does not stream. json: which
    reply was valid JSON: the first, a repaired reply, or none. answer: the LLM's answer. is_right:
    whether the answer is correct. has_citations: whether the answer cites both needed passages.
    estimated_tokens: hopsyncd's estimate of the prompt's tokens. prompt_tokens, reply_tokens: the
    counts that the endpoint reports. problem: the reason why there is no answer.
    """

    first_s: float | None
    total_s: float
    json: str
    answer: str
    is_right: bool
    has_citations: bool
    estimated_tokens: int
    prompt_tokens: int
    reply_tokens: int
    problem: str = ""


def try_llm(llm: Llm, budget_tokens: int) -> Trial:
    """Ask one question of at most `budget_tokens`. Raises LlmError.

    LlmNonsense is not raised. Its reason becomes the `problem` of the result.
    """
    question = AskedQuestion(QUESTION)
    material = make_up_material(compute_room(question, budget_tokens))
    call = call_for(question, material)
    usage, watch = Usage(), _Stopwatch()
    began_s = time.perf_counter()
    answer, cited, problem = "", frozenset[PassageId](), ""
    try:
        checked = check_reply(ask(llm, call, AnswerReply, usage, watch), material)
        answer, cited = checked.text, frozenset(checked.citations)
    except LlmNonsense as error:
        problem = error.why
    total_s = time.perf_counter() - began_s
    needed = {material.excerpts[0].passage, material.excerpts[-1].passage}
    return Trial(
        None if watch.first_s is None else watch.first_s - began_s,
        total_s,
        _test_json_ability(watch, usage),
        answer,
        ANSWER in answer,
        needed <= cited,
        count_tokens(call.system) + count_tokens(call.user),
        usage.prompt_tokens // max(usage.calls, 1),
        usage.completion_tokens // max(usage.calls, 1),
        problem,
    )


def _test_json_ability(watch: _Stopwatch, usage: Usage) -> str:
    if usage.failures["nonsense"]:
        return "no"
    repaired = any("cannot be used" in why for why in watch.withdrawn)
    return "after a repair" if repaired else "yes"


def make_up_material(tokens: int) -> Material:
    """Make passages with about `tokens` tokens in total.

    Only the first and the last passage together answer the test question.
    """
    texts = [_FIRST, _LAST]
    number = 0
    tokens_left = tokens - sum(map(_count_tokens, texts))
    while tokens_left > 0:
        filling = _FILLING.format(
            place=_PLACES[number % len(_PLACES)],
            name=_NAMES[number // len(_PLACES) % len(_NAMES)],
            year=1700 + number,
        )
        tokens_left -= _count_tokens(filling)
        if tokens_left > 0:
            texts.insert(-1, filling)
        number += 1
    return _make_material(texts)


def _count_tokens(text: str) -> int:
    return count_tokens(text) + 30


def _make_material(texts: list[str]) -> Material:
    ids = [PassageId(number) for number in range(1, len(texts) + 1)]
    passages = {
        id_: Passage((f"Mills, part {id_}",), text) for id_, text in zip(ids, texts, strict=True)
    }
    places = {
        id_: [Place("trial", f"mills/{id_}.md", "text/markdown", 1, 1, {}, id_)] for id_ in ids
    }
    found = PassageTexts(tuple(ids), passages, places)
    excerpts = tuple(
        Excerpt(id_, passage.text, (passage.text,), True) for id_, passage in passages.items()
    )
    return Material(found, excerpts, {})
