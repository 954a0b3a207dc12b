"""Answers from the graph: passages, documents, paths and answers; and the events of a stream."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class Failure(TypedDict):
    """Why a request failed, and what to do."""

    code: str
    message: str
    hint: str


class Failed(TypedDict):
    """The body of every answer that is not 2xx."""

    error: Failure


class PassagePlace(TypedDict):
    """Where a passage is; all null if it is nowhere at this version."""

    source: str | None
    document: str | None
    lines: list[int] | None
    unit: str | None
    span: list[int] | list[str] | None
    location: str | None
    origin: dict[str, str] | None


class PlacedPassage(PassagePlace):
    """A passage, its first place, and the others."""

    id: str
    text: str
    heading: list[str]
    also_in: list[PassagePlace]


class HopEnd(TypedDict):
    """A passage at one end of a hop.

    `document_name` is the subject and sender of a mail; other documents have no such field.
    """

    id: str
    heading: list[str]
    document: str | None
    document_name: NotRequired[str]


WalkedHop = TypedDict(
    "WalkedHop",
    {
        "from": HopEnd,
        "to": HopEnd,
        "question": str,
        "asked_by": Literal["from", "to", "both", "link", "backlink", "follow_up"],
        "share": float,
    },
)


class FoundStatement(TypedDict):
    """A statement on the path to a passage; `name` joins it to the one before."""

    passage: str
    text: str
    name: str | None


class FoundPassage(PlacedPassage):
    """A passage that answers a query; of `statement` and `topic`, by the last of the statements.

    `strength` says how likely it bears on the question.
    """

    score: float
    strength: Literal["strong", "fair", "weak"]
    hops: list[WalkedHop]
    statements: list[FoundStatement]


class QueryCost(TypedDict):
    """What a query took of the LLM."""

    calls: int
    tokens: int


class LogicSubproblem(TypedDict):
    """A part of a question; `rank` is when it was asked, from 1, and 0 if it never was."""

    id: int
    question: str
    after: list[int]
    rank: int
    query: str
    answer: str | None
    citations: list[HopEnd]


class LogicGraph(TypedDict):
    """How a question was resolved by logic, and the LLM's notes of what it read."""

    subproblems: list[LogicSubproblem]
    notes: str


class UnderstoodWord(TypedDict):
    """A word that no passage has, and the nearest one that was looked for in its place."""

    typed: str
    meant: str


class UnderstoodQuestion(TypedDict):
    """What was looked for, where that is not the question as it was typed.

    `offered` are corrections that were not applied, because the word as typed may be meant.
    `absent` are the words and phrases that no passage searched has.
    `filter` has the filters as they may be written, `documents` and `passages` what they leave. If
    that is nothing, `hint` names the nearest that would leave something.
    """

    question: str
    words: list[UnderstoodWord]
    offered: list[UnderstoodWord]
    absent: list[str]
    filter: str
    documents: int
    passages: int
    hint: str | None


class QueryAnswer(TypedDict):
    version: int
    understood: UnderstoodQuestion | None
    strategy: str
    profile: str | None
    reasoner: str | None
    llm: QueryCost | None
    degraded: list[str]
    passages: list[FoundPassage]
    logic: LogicGraph | None


class QueriesAnswer(TypedDict):
    """The answers are in the order of the queries."""

    answers: list[QueryAnswer | Failed]


class Citation(FoundPassage):
    """A passage that an answer rests on."""

    number: int


class CitedSentence(TypedDict):
    """A sentence of an extractive answer, word for word."""

    text: str
    citation: int


class AskCost(QueryCost):
    """The LLM's usage for an answer."""

    cached: int


class AskAnswer(TypedDict):
    """`passages` are those found, best first; empty unless they were asked for."""

    version: int
    understood: UnderstoodQuestion | None
    found: bool
    answer: str | None
    short: str | None
    by: Literal["extractive", "llm"]
    degraded: list[str]
    sentences: list[CitedSentence]
    citations: list[Citation]
    chain: list[WalkedHop]
    passages: list[FoundPassage]
    logic: LogicGraph | None
    llm: AskCost


class PassageQuestions(TypedDict):
    """The questions of a passage: those it answers, and those it raises."""

    incoming: list[str]
    outgoing: list[str]


class PassageAnswer(TypedDict):
    version: int
    degraded: list[str]
    passage: PlacedPassage
    questions: PassageQuestions


class ListedDocument(TypedDict):
    """A document of a list; its title is the outermost heading of its first passage."""

    source: str
    document: str
    title: str | None
    passages: int


class DocumentsAnswer(TypedDict):
    """`next` is null on the last page."""

    version: int
    degraded: list[str]
    documents: list[ListedDocument]
    next: str | None


class DocumentAnswer(TypedDict):
    """The passages are in reading order.

    `skipped` counts what was left out of the document on purpose when it was last read, by kind.
    """

    version: int
    degraded: list[str]
    source: str
    document: str
    skipped: dict[str, int]
    passages: list[PlacedPassage]


class NearPassage(TypedDict):
    """A passage near another; `start` is the beginning of its text.

    `document_name` is the subject and sender of a mail; other documents have no such field.
    """

    id: str
    heading: list[str]
    source: str | None
    document: str | None
    document_name: NotRequired[str]
    location: str | None
    start: str
    distance: int


NearEdge = TypedDict(
    "NearEdge",
    {
        "from": str,
        "to": str,
        "question": str,
        "asked_by": Literal["from", "to", "both", "link", "backlink"],
        "similarity": float | None,
        "name": NotRequired[str],
    },
)


class NeighboursAnswer(TypedDict):
    """The passage itself comes first, at distance 0."""

    version: int
    degraded: list[str]
    passages: list[NearPassage]
    edges: list[NearEdge]


class PathHop(WalkedHop):
    """A hop of a path. No mass flowed along it: `share` is 0."""

    similarity: float | None


class PathsAnswer(TypedDict):
    """The shortest path comes first; there is none if no path is short enough."""

    version: int
    degraded: list[str]
    paths: list[list[PathHop]]


class ProgressEvent(TypedDict):
    """How far the work is. A sync has `source` to `share`, a check `checking` and what follows it.

    An ask has a `stage`: `search`, then `answer` with the number of `passages` to answer from. By
    logic it has, before that, `split`, and for each rank `search` and `resolve`, with `questions`.
    """

    event: Literal["progress"]
    stage: NotRequired[Literal["split", "search", "resolve", "answer"]]
    questions: NotRequired[list[str]]
    passages: NotRequired[int]
    source: NotRequired[str]
    documents_done: NotRequired[int]
    documents_total: NotRequired[int]
    passages_done: NotRequired[int]
    passages_total: NotRequired[int]
    share: NotRequired[float]
    checking: NotRequired[str]
    checks_done: NotRequired[int]
    checks_total: NotRequired[int]


class TextEvent(TypedDict):
    """The next part of the answer's text."""

    event: Literal["text"]
    text: str


class WithdrawnEvent(TypedDict):
    """The text so far is not the answer, and why; another text begins."""

    event: Literal["withdrawn"]
    why: str


class AnswerEvent(TypedDict):
    """The last event: the answer, as without streaming."""

    event: Literal["answer"]
    answer: dict[str, Any]


class ErrorEvent(Failed):
    """The last event of a failure; `status` is the HTTP status it has without streaming."""

    event: Literal["error"]
    status: int


Event = ProgressEvent | TextEvent | WithdrawnEvent | AnswerEvent
"""An event of a stream, except that of a failure."""
