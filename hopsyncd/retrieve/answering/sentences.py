"""The sentences of the passages that were found, held against the question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.models.encoder import Encoder
from hopsyncd.models.keywords import normalise
from hopsyncd.models.questions import sentence_spans
from hopsyncd.retrieve.engine import Answer
from store.records import GRID, Direction, Passage, PassageId, QuestionSet, Vectors, to_grid
from store.words import index_terms


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the passage that is `rank`-th of those found, counted from 0.

    cosine: with the question. terms: those of the question's that it, its heading or the path of
    its document has. names: the keywords of its own question, the headings among them.
    """

    passage: PassageId
    rank: int
    text: str
    cosine: float
    terms: frozenset[str]
    names: frozenset[str]


def sentences_of(
    answer: Answer,
    sets: Mapping[PassageId, QuestionSet],
    question: Vectors,
    terms: Mapping[str, float],
    encoder: Encoder,
) -> list[Sentence]:
    """All sentences, by rank and place.

    A vector is taken from the passage's question set, where a sentence is a question of its own,
    as the built-in generator makes them; otherwise the sentence is embedded now.
    """
    found: list[Sentence] = []
    for rank, ranked in enumerate(answer.ranked):
        passage = answer.passages[ranked.passage]
        texts = [passage.text[start:end] for start, end in sentence_spans(passage.text)]
        stored = _stored(sets.get(ranked.passage))
        vectors = _vectors(passage, texts, stored, encoder)
        cosines = vectors.astype(np.float64) @ question.astype(np.float64) / (GRID * GRID)
        topics = frozenset(normalise(heading) for heading in passage.heading)
        paths = [place.document for place in answer.places.get(ranked.passage, ())]
        above = frozenset(index_terms(" ".join((*passage.heading, *paths))))
        for text, cosine in zip(texts, cosines.tolist(), strict=True):
            has = above.union(index_terms(text)).intersection(terms)
            names = stored[text][1] if text in stored else topics
            found.append(Sentence(ranked.passage, rank, text, cosine, has, names))
    return found


def _stored(questions: QuestionSet | None) -> dict[str, tuple[NDArray[np.int16], frozenset[str]]]:
    """The vector and the keywords of each incoming question, by its text."""
    if questions is None:
        return {}
    return {
        one.text: (questions.vectors[one.vector_row], one.keywords)
        for one in questions.questions
        if one.direction is Direction.INCOMING
    }


def _vectors(
    passage: Passage,
    texts: Sequence[str],
    stored: Mapping[str, tuple[NDArray[np.int16], frozenset[str]]],
    encoder: Encoder,
) -> Vectors:
    """(m, d) of the m texts, in their passage's context as the generator embeds them."""
    about = " > ".join(passage.heading)
    missing = [text for text in texts if text not in stored]
    made = to_grid(encoder.encode([f"{about}: {text}" if about else text for text in missing]))
    anew = dict(zip(missing, made, strict=True))
    rows = [stored[text][0] if text in stored else anew[text] for text in texts]
    return np.array(rows, dtype=np.int16).reshape(len(rows), encoder.dimensions)
