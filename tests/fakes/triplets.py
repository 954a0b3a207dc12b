"""Question sets written by hand: names and directions instead of texts."""

from collections.abc import Sequence

import numpy as np

from store.records import (
    Direction,
    PassageId,
    Question,
    QuestionId,
    QuestionSet,
    SetId,
    compute_question_id,
    compute_set_id,
    to_grid,
)

Triplet = tuple[str, Sequence[float]]
"""Keywords in one string, and a vector of any length: ("rome italy", (1, 0))."""

RECIPE = "by hand"


def triplets(
    passage: int, incoming: Sequence[Triplet] = (), outgoing: Sequence[Triplet] = ()
) -> QuestionSet:
    """The question set of a passage; its own vector (row 0) is the sum of all others."""
    id_ = compute_set_id(PassageId(passage), RECIPE)
    asked = [(Direction.INCOMING, one) for one in incoming]
    asked += [(Direction.OUTGOING, one) for one in outgoing]
    ordinals = [*range(len(incoming)), *range(len(outgoing))]
    questions = tuple(
        Question(
            compute_question_id(id_, direction, ordinal),
            direction,
            keywords,
            frozenset(keywords.split()),
            row,
        )
        for row, (ordinal, (direction, (keywords, _))) in enumerate(
            zip(ordinals, asked, strict=True), 1
        )
    )
    vectors = np.array([vector for _, (_, vector) in asked], dtype=np.float64).reshape(
        len(asked), -1 if asked else 2
    )
    whole = vectors.sum(axis=0, keepdims=True)
    return QuestionSet(
        SetId(id_), PassageId(passage), questions, to_grid(np.vstack([whole, vectors]))
    )


def asks(of: QuestionSet, ordinal: int = 0) -> QuestionId:
    """The id of a passage's outgoing question."""
    return compute_question_id(of.id, Direction.OUTGOING, ordinal)


def answers(of: QuestionSet, ordinal: int = 0) -> QuestionId:
    """The id of a passage's incoming question."""
    return compute_question_id(of.id, Direction.INCOMING, ordinal)
