"""Small graphs in a live index, made by hand: no files and no store."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.documents import NewDocument, change_documents
from hopsyncd.index.edge_selection import (
    MatchDelta,
    find_edge_threshold,
    list_pending_matches,
    update_matches,
)
from hopsyncd.index.links import compute_heading_key
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.passage_content import NewPassage, add_passages
from hopsyncd.index.postings import Postings
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.retrieve.likeness import Likeness
from hopsyncd.retrieve.query_context import Coverage, QueryContext
from hopsyncd.text.words import count_terms
from store.records import (
    Direction,
    Link,
    PassageId,
    Question,
    QuestionId,
    QuestionSet,
    SetId,
    Version,
    count_words,
)

ANSWER = 100_000  # plus the number of an edge: the id of the incoming question it leads to
_MENTION = 200_000
_NO_VERSION = Version(0, 0, "", 0, "", 0, 0, 0, 0, 0, None, {})


def passage(questions: QuestionSet, text: str = "", headings: Sequence[str] = ()) -> NewPassage:
    """A passage with the words of a text."""
    (terms,) = count_terms([text])
    return NewPassage(questions, count_words(text), terms, [*map(compute_heading_key, headings)])


def document(
    id_: int,
    path: str,
    passages: Sequence[int],
    *,
    source: str = "notes",
    names: tuple[str, ...] = (),
    called: tuple[str, ...] = (),
    links: Mapping[int, Sequence[str]] | None = None,
) -> NewDocument:
    """A document of these passages; `links` are the targets of those in each, shown as they are."""
    links = links or {}
    occurrences = tuple(
        (PassageId(one), tuple(Link(target, target) for target in links.get(one, ())))
        for one in passages
    )
    return NewDocument(id_, source, path, names, called, occurrences)


def advance(
    index: LiveIndex,
    version: int,
    begun: Sequence[NewPassage | QuestionSet] = (),
    ended: Sequence[int] = (),
    documents: Sequence[NewDocument] = (),
    documents_ended: Sequence[int] = (),
) -> MatchDelta:
    """One more version: passages and documents come and go, and matches with them."""
    came = [passage(one) if isinstance(one, QuestionSet) else one for one in begun]
    new = add_passages(index, came)
    gone = index.find_vertices(np.array(ended, dtype=np.int64))
    index.end_passages(gone)
    index.begin_passages(new)
    update_matches(index, gone, new)
    delta = list_pending_matches(index)
    index.settle(version)
    change_documents(index, version, documents_ended, documents)
    index.settle(version)
    return delta


def snapshot_at(index: LiveIndex, version: int, budget: int | None = None) -> Snapshot:
    """A version of an index, with so many edges; by default every match is one."""
    found = Snapshot(index, replace(_NO_VERSION, id=version), Statistics.count(index, version))
    if budget is None:
        return found
    matches = found.list_matches()
    out, similarity = matches.source_question, matches.similarity
    edge_threshold = find_edge_threshold(index.outgoing.id[out], similarity, budget)
    return replace(found, version=replace(found.version, edge_threshold=edge_threshold))


def indexed(
    passages: Sequence[NewPassage | QuestionSet],
    documents: Sequence[NewDocument] | None = None,
    budget: int | None = None,
) -> Snapshot:
    """One version of these passages, matched by Eq. 1; by default each is its own document."""
    sets = [one if isinstance(one, QuestionSet) else one.questions for one in passages]
    index = LiveIndex(sets[0].vectors.shape[1] if sets else 2)
    if documents is None:
        documents = [
            document(index, f"{index}.md", [one.passage]) for index, one in enumerate(sets)
        ]
    advance(index, 1, passages, documents=documents)
    return snapshot_at(index, 1, budget)


def drawn(
    count: int,
    edges: Sequence[tuple[int, int, float]] = (),
    named: Sequence[tuple[int, str]] = (),
    linked: Sequence[tuple[int, int]] = (),
    paths: Sequence[str] = (),
    keywords: Sequence[str] = (),
) -> Snapshot:
    """A graph as drawn: passages 0, 10, 20 ... are the entries 0, 1, 2 ...

    edges: source, target and similarity; edge i is asked by question i, with those `keywords`.
    named: who mentions which name, each in a sentence of its own. linked: who links to whose
    document, as "to TARGET". paths: the document of each passage, by default one each.
    """
    paths = paths or [f"{index}.md" for index in range(count)]
    questions: list[list[Question]] = [[] for _ in range(count)]

    def add(at: int, id_: int, direction: Direction, names: str = "") -> None:
        row = len(questions[at]) + 1
        said = frozenset(names.split())
        questions[at].append(Question(QuestionId(id_), direction, "", said, row))

    for number, (source, target, _) in enumerate(edges):
        add(source, number, Direction.OUTGOING, keywords[number] if keywords else "")
        add(target, ANSWER + number, Direction.INCOMING)
    for number, (at, name) in enumerate(named):
        add(at, _MENTION + number, Direction.INCOMING, name)
    index = LiveIndex(2)
    sets = [
        QuestionSet(
            SetId(index),
            PassageId(10 * index),
            tuple(asked),
            np.zeros((len(asked) + 1, 2), np.int16),
        )
        for index, asked in enumerate(questions)
    ]
    index.begin_passages(add_passages(index, [passage(question_set) for question_set in sets]))
    index.begin_matches(
        _rows(index.postings.outgoing_by_id, 0, len(edges)),
        _rows(index.postings.incoming_by_id, ANSWER, len(edges)),
        np.array([similarity for _, _, similarity in edges], dtype=np.float64),
    )
    index.settle(1)
    change_documents(index, 1, (), _linking(count, linked, paths))
    return snapshot_at(index, 1)


def _rows(questions: Postings, first: int, count: int) -> NDArray[np.int64]:
    return questions.find_all(np.arange(first, first + count))[0]


def _linking(
    count: int, linked: Sequence[tuple[int, int]], paths: Sequence[str]
) -> list[NewDocument]:
    links: dict[int, list[Link]] = {index: [] for index in range(count)}
    for source, target in linked:
        links[source].append(Link(paths[target], f"to {target}"))
    return [
        NewDocument(
            id_,
            "notes",
            path,
            (),
            (),
            tuple(
                (PassageId(10 * index), tuple(links[index]))
                for index in range(count)
                if paths[index] == path
            ),
        )
        for id_, path in enumerate(dict.fromkeys(paths))
    ]


class GivenLikeness(Likeness):
    """With these (r,) cosines of all rows."""

    def __init__(self, snapshot: Snapshot, cosines: NDArray[np.float32]) -> None:
        super().__init__(snapshot, np.zeros(snapshot.index.vectors.dimensions, dtype=np.int16))
        self.every = cosines


def asked(
    snapshot: Snapshot,
    cosines: Mapping[int, float] | None = None,
    names: Mapping[str, float] | None = None,
    by_words: Sequence[float] | None = None,
    coverage: Coverage | None = None,
) -> QueryContext:
    """A question held against it: its cosines with rows of the vectors, 0 where none is given."""
    count = len(snapshot.statistics.visible.passages)
    near = np.zeros(len(snapshot.index.vectors), dtype=np.float32)
    for row, cosine in (cosines or {}).items():
        near[row] = cosine
    said = np.zeros(count) if by_words is None else np.array(by_words, dtype=np.float64)
    unasked = Coverage(np.empty(0), np.empty((0, count), dtype=np.bool_))
    like = GivenLikeness(snapshot, near)
    return QueryContext(snapshot, like, names or {}, said, coverage or unasked, {}, lambda _: {})


def whole_row(snapshot: Snapshot, entry: int) -> int:
    """The row of the vector of a whole passage."""
    return int(snapshot.index.passages.vector_start[entry])
