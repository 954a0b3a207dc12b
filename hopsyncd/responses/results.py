"""Types of the API responses with passages, documents, paths and answers, and the events of a
stream."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class Failure(TypedDict):
    """Why a request failed, and what to do."""

    code: str
    message: str
    hint: str


class Failed(TypedDict):
    """The body of every response whose status is not 2xx."""

    error: Failure


class PassagePlace(TypedDict):
    """The place of a passage. All fields are null if no document of this version contains it."""

    source: str | None
    document: str | None
    lines: list[int] | None
    unit: str | None
    span: list[int] | list[str] | None
    location: str | None
    origin: dict[str, str] | None


class PlacedPassage(PassagePlace):
    """A passage with its first place. `also_in` has its other places."""

    id: str
    text: str
    heading: list[str]
    also_in: list[PassagePlace]


class HopEnd(TypedDict):
    """A passage at one end of a hop.

    `document_name` is the subject and sender of a mail; other documents lack this field.
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
    """A statement on the path to a passage. It shares `name` with the previous statement."""

    passage: str
    text: str
    name: str | None


class SimilarPassage(PassagePlace):
    """A near-duplicate of a passage found, without a place of its own in the results."""

    id: str
    heading: list[str]


class FoundPassage(PlacedPassage):
    """A passage found. With the strategies `statement` and `topic`, `statements` is the path to the
    passage.

    `strength` says how relevant the passage is to the question, and is null if there are only
    filters. `similar` are the passage's near-duplicates among the results.
    """

    score: float
    strength: Literal["strong", "fair", "weak"] | None
    similar: list[SimilarPassage]
    hops: list[WalkedHop]
    statements: list[FoundStatement]


class QueryCost(TypedDict):
    """The LLM usage of a query."""

    calls: int
    tokens: int


class LogicSubproblem(TypedDict):
    """A part of a question. `rank` is the step at which this part was asked, or 0 if the part was
    not asked."""

    id: int
    question: str
    after: list[int]
    rank: int
    query: str
    answer: str | None
    citations: list[HopEnd]


class LogicGraph(TypedDict):
    """The parts of a question that was answered by logic, and the notes of the LLM."""

    subproblems: list[LogicSubproblem]
    notes: str


class UnderstoodWord(TypedDict):
    """A word that no passage contains (`typed`), and the word that was searched for instead."""

    typed: str
    meant: str


class UnderstoodQuestion(TypedDict):
    """How the question was read, if this differs from the typed question.

    `offered` has corrections that were not applied, because the typed word may be right. `absent`
    are the words and phrases that no searched passage contains. `filter` has the filters in normal
    form, and `documents` and `passages` count the matches of the filters. If nothing matches,
    `hint` suggests similar filters that match. `offered_filter` is a date filter for a time in the
    question, such as "last week". The date filter was not applied.
    """

    question: str
    words: list[UnderstoodWord]
    offered: list[UnderstoodWord]
    absent: list[str]
    filter: str
    offered_filter: str
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
    """The answers, in the order of the queries."""

    answers: list[QueryAnswer | Failed]


class Citation(FoundPassage):
    """A passage that an answer cites."""

    number: int


class CitedSentence(TypedDict):
    """A sentence of an extractive answer, word for word, and the title of its document."""

    text: str
    title: str
    citation: int


class AskCost(QueryCost):
    """The LLM's usage for an answer. If prices are configured, `price` is in `currency`."""

    cached: int
    price: NotRequired[float]
    currency: NotRequired[str]


class AskAnswer(TypedDict):
    """The answer to a question. `passages` are the search results, best first. They are empty
    if an answer was found, unless the request asks for the search results.

    `subjects` are names of the `thread` that were added to the search.
    """

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
    subjects: list[str]


class PassageQuestions(TypedDict):
    """The questions that a passage answers (`incoming`) and raises (`outgoing`)."""

    incoming: list[str]
    outgoing: list[str]


class PassageAnswer(TypedDict):
    version: int
    degraded: list[str]
    passage: PlacedPassage
    questions: PassageQuestions


class ListedDocument(TypedDict):
    """A document in a list. `title` is the first heading of the document's first passage."""

    source: str
    document: str
    title: str | None
    passages: int


class DocumentsAnswer(TypedDict):
    """A page of the document list. `next` is null on the last page."""

    version: int
    degraded: list[str]
    documents: list[ListedDocument]
    next: str | None


class FileTextAnswer(TypedDict):
    """The text of a document's file, which has not changed since it was indexed."""

    version: int
    source: str
    document: str
    text: str


class NoteAnswer(TypedDict):
    """The path of the file that was written."""

    file: str


class DocumentAnswer(TypedDict):
    """A document with its passages in reading order.
    `skipped` counts, by kind, the parts that the reader left out of the document.
    """

    version: int
    degraded: list[str]
    source: str
    document: str
    skipped: dict[str, int]
    passages: list[PlacedPassage]


class FacetValue(TypedDict):
    """A value that documents have, the filter for it, and the number of these documents."""

    value: str
    filter: str
    documents: int


class MonthCount(TypedDict):
    """The number of documents that were last written in a month, such as 2026-03."""

    month: str
    documents: int


class Facets(TypedDict):
    """The number of documents with each value. The most frequent value comes first; months are in
    order."""

    source: list[FacetValue]
    type: list[FacetValue]
    folder: list[FacetValue]
    tag: list[FacetValue]
    author: list[FacetValue]
    month: list[MonthCount]


class FacetsAnswer(TypedDict):
    """The values that documents have. `documents` and `passages` count what matches the filters.

    `modified` has the time at which each document of the request was last modified, or null.
    """

    version: int
    degraded: list[str]
    documents: int
    passages: int
    facets: Facets
    modified: list[str | None]


class ExampleQuestion(TypedDict):
    """A question that needs two documents. `path` has the names that lead from one document to the
    other."""

    question: str
    path: list[str]


class ExamplesAnswer(TypedDict):
    """Questions about names in the documents. The search finds both documents of each."""

    version: int
    questions: list[ExampleQuestion]


class NearPassage(TypedDict):
    """A passage near another passage. `start` is the beginning of its text.

    `document_name` is the subject and sender of a mail; other documents lack this field.
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
    """The passages near a passage. The passage itself comes first, at distance 0."""

    version: int
    degraded: list[str]
    passages: list[NearPassage]
    edges: list[NearEdge]


class PathHop(WalkedHop):
    """A hop of a path. `share` is always 0."""

    similarity: float | None


class PathsAnswer(TypedDict):
    """The paths, shortest first. The list is empty if no path is short enough."""

    version: int
    degraded: list[str]
    paths: list[list[PathHop]]


class ProgressEvent(TypedDict):
    """The progress of the work. A sync has the fields from `source` to `share`, a check the last
    three fields.

    An ask has a `stage`: `search`, then `answer` with the number of `passages` found, and `by`,
    which says who writes the answer. With the method logic, the stages before `answer` are `split`,
    and for each step `search` and `resolve` with `questions`.
    """

    event: Literal["progress"]
    stage: NotRequired[Literal["split", "search", "resolve", "answer"]]
    questions: NotRequired[list[str]]
    passages: NotRequired[int]
    by: NotRequired[Literal["extractive", "llm"]]
    source: NotRequired[str]
    again: NotRequired[bool]
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
    """The text so far is withdrawn, and another text begins. `why` is the reason."""

    event: Literal["withdrawn"]
    why: str


class CitationEvent(TypedDict):
    """The passage that a mark such as [1] in the text after this event refers to."""

    event: Literal["citation"]
    citation: Citation


class AnswerEvent(TypedDict):
    """The last event: the same answer as without streaming."""

    event: Literal["answer"]
    answer: dict[str, Any]


class ErrorEvent(Failed):
    """The last event after a failure. `status` is the HTTP status of the same failure without
    streaming."""

    event: Literal["error"]
    status: int


Event = ProgressEvent | TextEvent | CitationEvent | WithdrawnEvent | AnswerEvent
"""An event of a stream, except for ErrorEvent."""
