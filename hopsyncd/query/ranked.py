"""What every strategy returns: passages with a score and, for `hop`, how they were reached."""

from dataclasses import dataclass

from store.records import PassageId, QuestionId


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of the walk, from `source` to `target`, along the edge of an outgoing question.

    The question is raised by `source` if `forward`, else by `target`. `share` is the part of the
    mass that arrived at `target` this way, between 0 and 1.
    """

    source: PassageId
    target: PassageId
    question: QuestionId
    forward: bool
    share: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage and its score; scores of different strategies cannot be compared."""

    passage: PassageId
    score: float
    hops: tuple[Hop, ...] = ()
