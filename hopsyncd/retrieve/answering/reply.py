"""The answer to a question, and its JSON object for the API and `--json`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hopsyncd.models.llm.budget import Usage
from hopsyncd.responses.results import AskAnswer, Citation
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.ranking import Hop
from hopsyncd.retrieve.results import (
    Answer,
    find_document_title,
    format_hop,
    format_logic,
    format_passage,
    format_passages,
    format_understood,
    leave_out_filter_words,
)
from store.records import PassageId


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quoted sentence that contains the answer, and the passage that it comes from."""

    passage: PassageId
    text: str


@dataclass(frozen=True, slots=True)
class AskReply:
    """An answer. If it has no passages, the documents do not answer the question.

    text: the LLM's words, or the sentences of `evidence`. evidence: the sentences that the LLM's
    answer is based on. short: the short answer in a few words, or None. The short answer is a guess
    unless an LLM wrote it. passages: the cited passages, in the order of their numbers from 1.
    chain: the hops between the cited passages. degraded: reasons why the answer is not as
    requested. spent: the LLM calls and tokens used. subjects: names of earlier questions that the
    search added.
    """

    text: str
    short: str | None
    by: Literal["extractive", "llm"]
    passages: tuple[PassageId, ...]
    evidence: tuple[Evidence, ...] = ()
    chain: tuple[Hop, ...] = ()
    degraded: tuple[str, ...] = ()
    spent: Usage = field(default_factory=Usage)
    subjects: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        return bool(self.passages)

    @property
    def brief(self) -> str:
        """The text to compare with an expected answer. It is empty if nothing was found."""
        return self.short or (self.evidence[0].text if self.evidence else self.text)


def split_reply(reply: AskReply) -> list[str]:
    """Split the answer into sentences, which are streamed one by one."""
    if reply.by == "llm" or not reply.evidence:
        return [reply.text] if reply.text else []
    first, *others = (sentence.text for sentence in reply.evidence)
    return [first, *(f" {text}" for text in others)]


def format_reply(
    answer: Answer | None,
    reply: AskReply,
    degraded: Sequence[str],
    understood: Understood | None = None,
    with_passages: bool = False,
) -> AskAnswer:
    """Format the answer and its numbered citations, as docs/reference/http-api.md documents.

    If nothing was found, the passages are always included, because the documents may answer the
    question all the same. Version 0 is the empty graph before the first sync.
    """
    answer = leave_out_filter_words(answer, understood)
    numbers = {passage: number for number, passage in enumerate(reply.passages, 1)}
    return {
        "version": answer.version if answer else 0,
        "understood": format_understood(answer, understood),
        "found": reply.found,
        "answer": reply.text if reply.found else None,
        "short": reply.short if reply.found else None,
        "by": reply.by,
        "degraded": [
            *degraded,
            *(answer.degraded if answer else ()),
            *(understood.notes if understood else ()),
            *reply.degraded,
        ],
        "sentences": [
            {
                "text": sentence.text,
                "title": find_document_title(answer, sentence.passage) if answer else "",
                "citation": numbers[sentence.passage],
            }
            for sentence in reply.evidence
        ],
        "citations": [
            format_citation(answer, number, passage)
            for passage, number in numbers.items()
            if answer
        ],
        "chain": [format_hop(answer, hop) for hop in reply.chain] if answer else [],
        "passages": format_passages(answer) if with_passages or not reply.found else [],
        "logic": format_logic(answer),
        "llm": {
            "calls": reply.spent.calls,
            "cached": reply.spent.cached,
            "tokens": reply.spent.tokens,
        },
        "subjects": [*reply.subjects],
    }


def format_citation(answer: Answer, number: int, passage: PassageId) -> Citation:
    """Format a passage of `answer` as the citation with this number."""
    ranked = next(hit for hit in answer.ranked if hit.passage == passage)
    return {"number": number, **format_passage(answer, ranked)}
