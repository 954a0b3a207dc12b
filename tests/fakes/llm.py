"""An LLM that asks plain questions about the names in a passage, and fails as it is told."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from hopsyncd.errors import LlmError, LlmNonsense, LlmUnavailable
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, Reply, TokenSink
from hopsyncd.models.llm_maker import LlmQuestionMaker, Mode
from hopsyncd.models.llm_questions import LlmExtractor
from hopsyncd.models.llm_statements import make_prompt_spec
from tests.fakes.lived import NAMES, page
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage

Play = Callable[[LlmCall], "str | LlmError"]
Tokens = Callable[[LlmCall], tuple[int, int]]
DOWN = LlmUnavailable("No answer", "it is down", "Start it")


def passages_in(user: str) -> list[dict[str, Any]]:
    """The passages of a call for questions, as {id, heading, text}."""
    return [json.loads(line) for line in user.splitlines() if line.startswith("{")]


def excerpts_in(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The passages shown for an answer, as {number, heading, text, title, path, date}."""
    found = []
    for document in data["documents"]:
        for label, text in document["passages"].items():
            number, _, heading = label.partition(". ")
            about = {name: document.get(name, "") for name in ("title", "path", "date")}
            found.append({"number": int(number), "heading": heading, "text": text, **about})
    return found


def good_reply(user: str) -> str:
    """Questions for every passage of the call, a function of its text."""
    parts = []
    for passage in passages_in(user):
        first = passage["text"].split(".")[0]
        names = [mention.keyword for mention in FakeLanguage().find_mentions([passage["text"]])[0]]
        about = [*names, "the matter", "the place", "the time", "the reason"][:4]
        parts.append(
            {
                "id": passage["id"],
                "incoming": [f"Is it so that {first}?", f"What does {first} tell?"],
                "outgoing": [f"What else is known of {name}?" for name in dict.fromkeys(about)],
            }
        )
    return json.dumps({"passages": parts})


def stated_reply(user: str) -> str:
    """Each sentence of the call's passages as a statement, its names as a fact, by their text."""
    parts = []
    for passage in passages_in(user):
        statements = []
        for sentence in filter(str.strip, passage["text"].replace("\n", " ").split(".")):
            (found,) = FakeLanguage().find_mentions([sentence])
            names = [sentence[one.start : one.end] for one in found]
            facts = [
                {"subject": one, "relation": "meets", "object": other}
                for one, other in zip(names, [*names[1:], *names[:1]], strict=True)
            ]
            statements.append({"statement": f"{sentence.strip()}.", "facts": facts})
        topic = {"topic": "the matter", "statements": statements}
        parts.append({"id": passage["id"], "topics": [topic]})
    return json.dumps({"passages": parts})


def up(call: LlmCall) -> str:
    return good_reply(call.user)


def stating(call: LlmCall) -> str:
    return stated_reply(call.user)


def down(_: LlmCall) -> LlmError:
    return DOWN


def library() -> MemoryConnector:
    """Pages about four cities, which mention others."""
    around = [*NAMES, *NAMES]
    return MemoryConnector(
        {
            f"{name.lower()}.md": page(name, around[index + 1], around[index + 3])
            for index, name in enumerate(NAMES[:4])
        }
    )


class FakeLlm:
    """Plays `play`: the text of each reply, or an error. `calls` are those it was asked.

    `tokens` are those of a prompt and of its reply. It streams nothing.
    """

    name = "fake temperature=0"

    def __init__(self, play: Play = up, tokens: Tokens = lambda _: (100, 20)) -> None:
        self.play = play
        self.tokens = tokens
        self.calls: list[LlmCall] = []

    def ask_each(
        self,
        calls: Sequence[LlmCall],
        shape: type[Reply],
        usage: Usage,
        yield_to_edits: Callable[[], None] = lambda: None,
        sink: TokenSink | None = None,
    ) -> Iterator[tuple[int, Reply | LlmError]]:
        yield_to_edits()
        for index, call in reversed(list(enumerate(calls))):
            yield index, self._result(call, shape, usage)

    def _result(self, call: LlmCall, shape: type[Reply], usage: Usage) -> Reply | LlmError:
        try:
            usage.reserve(call.max_tokens)
            self.calls.append(call)
            said = self.play(call)
            if isinstance(said, LlmError):
                raise said
            usage.settle(call.max_tokens, *self.tokens(call))
            return shape.model_validate_json(said)
        except LlmError as error:
            failed = error
        except ValidationError as error:
            failed = LlmNonsense("Cannot use the reply", str(error), "Ask again")
        usage.count_failure(failed.kind)
        return failed

    @property
    def times(self) -> Counter[str]:
        """How often each passage was sent, by its text."""
        return Counter(passage["text"] for call in self.calls for passage in passages_in(call.user))


def asked_maker(
    llm: FakeLlm,
    mode: Mode = "both",
    passages_per_call: int = 2,
    calls_a_round: int = 2,
    dimensions: int = 16,
) -> LlmQuestionMaker:
    asker = LlmExtractor(llm, passages_per_call, calls_a_round, make_prompt_spec(mode))
    return LlmQuestionMaker(asker, FakeLanguage(), FakeEncoder(dimensions), mode)
