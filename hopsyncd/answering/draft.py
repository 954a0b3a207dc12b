"""What is told of an LLM's answer while it is written, before it is checked."""

from collections.abc import Callable

from pydantic_core import from_json

from hopsyncd.answering.llm_answer import MAX_ANSWER
from hopsyncd.answering.reply import Reply, parts_of

_REPLY_CHARACTERS = 16 * MAX_ANSWER  # of a longer one the rest is not read; an escape has up to 12
_ANOTHER = "it is not the answer after all"


class Draft:
    """Implements llm.call.Hearer, for the reply to one question.

    The texts that were told and not withdrawn are, joined, the answer as far as the LLM has written
    it; in the end, as it was checked.
    """

    def __init__(self, tell: Callable[[str], None], tell_withdrawn: Callable[[str], None]) -> None:
        self._tell = tell
        self._tell_withdrawn = tell_withdrawn
        self._reply = ""
        self._told = ""

    def write(self, text: str) -> None:
        if len(self._reply) > _REPLY_CHARACTERS:
            return
        self._reply += text
        answer = answer_in(self._reply)
        if answer is not None:
            self._go_on(answer)

    def withdraw(self, why: str) -> None:
        self._reply = ""
        self._begin_anew(why)

    def finish(self, reply: Reply) -> None:
        """Tell what is left of the checked answer; what is no beginning of it is withdrawn."""
        if reply.by != "llm":
            self.withdraw("; ".join(reply.degraded))
        answer = ""
        for part in [reply.text] if self._told else parts_of(reply):
            answer += part
            self._go_on(answer)

    def _go_on(self, answer: str) -> None:
        if not answer.startswith(self._told):
            self._begin_anew(_ANOTHER)
        if rest := answer[len(self._told) :]:
            self._tell(rest)
        self._told = answer

    def _begin_anew(self, why: str) -> None:
        if self._told:
            self._tell_withdrawn(why)
            self._told = ""


def answer_in(reply: str) -> str | None:
    """The answer as far as the beginning of a reply has it; None where that cannot be read.

    >>> answer_in('Sure: {"found": true, "answer": "In Ostrava,\\\\u00e')
    'In Ostrava,'
    """
    said = reply.rpartition("</think>")[2].lstrip()
    start = said.find("{")
    if start < 0 or said.startswith("<think"):
        return ""
    try:
        read = from_json(said[start:], allow_partial="trailing-strings")
    except (ValueError, RecursionError):
        return None
    if read.get("found") is False or not isinstance(answer := read.get("answer"), str):
        return ""
    return answer.strip()[:MAX_ANSWER]
