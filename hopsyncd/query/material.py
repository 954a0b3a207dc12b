"""What an LLM is shown of a fork: the passage, and the question of each way that leads on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopsyncd.graph.traverse import Fork
from hopsyncd.graph.view import GraphView
from store.content import known_passages, question_texts
from store.database import Connection, snapshot
from store.records import Passage, PassageId, QuestionId


@dataclass(frozen=True, slots=True)
class Material:
    """What is judged at one fork; one question for each way offered, in their order."""

    passage: Passage
    questions: tuple[str, ...]


# What is at each fork; None where the version is no longer stored.
Read = Callable[[Sequence[Fork]], Sequence[Material | None]]


def materials(
    connection: Connection, view: GraphView, titled: bool, forks: Sequence[Fork]
) -> list[Material | None]:
    """What an LLM is shown of these forks; None where the passage is stored no longer.

    With `titled`, each question comes with the heading of the passage that it leads to: going back
    along an edge, the question alone does not say where that is.
    """
    ends = {way: _id(view, view.ways.end(way)) for fork in forks for way in fork.ways}
    asked = {way: _question(view, way) for way in ends}
    with snapshot(connection):
        wanted = {*(_id(view, fork.passage) for fork in forks), *ends.values()}
        passages = known_passages(connection, wanted)
        texts = question_texts(connection, asked.values())

    def shown(way: int) -> str:
        text, end = texts.get(asked[way], ""), passages.get(ends[way])
        return f"{text} ({' > '.join(end.heading)})" if titled and end and end.heading else text

    return [
        Material(passage, tuple(shown(way) for way in fork.ways)) if passage else None
        for fork in forks
        for passage in [passages.get(_id(view, fork.passage))]
    ]


def _id(view: GraphView, position: int) -> PassageId:
    return PassageId(int(view.passage[position]))


def _question(view: GraphView, way: int) -> QuestionId:
    """The question of the passage that a way leads to: one it answers or, going back, its own."""
    edges = len(view.source)
    return QuestionId(int(view.answer[way] if way < edges else view.question[way - edges]))
