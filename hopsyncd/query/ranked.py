"""What every strategy returns: passages with a score and, for `hop`, how they were reached."""

from dataclasses import dataclass
from typing import Literal

from store.records import PassageId, QuestionId


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of the walk, from `source` to `target`.

    Along an edge, `question` is the outgoing question that makes it, asked by the passage that
    `asked_by` names. By a name that each mentions or has from its document, `name` is that name.
    Along a link of a document, or back along one, it is what the link shows. `share` is the part of
    the mass that arrived at `target` this way, between 0 and 1.
    """

    source: PassageId
    target: PassageId
    asked_by: Literal["from", "to", "both", "link", "backlink"]
    question: QuestionId | None
    name: str | None
    share: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage and its score; scores of different strategies cannot be compared."""

    passage: PassageId
    score: float
    hops: tuple[Hop, ...] = ()
