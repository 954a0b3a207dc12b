"""The sentences of the passages found, each compared with the question."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.keywords import STOP_WORDS, normalise
from hopsyncd.models.questions import find_sentence_spans
from hopsyncd.retrieve.query_context import compute_question_idf
from hopsyncd.text.words import list_index_terms, map_texts_to_terms
from store.content import find_best_sets, read_sets_by_id
from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.reads import Place, read_places
from store.records import GRID, Direction, Passage, PassageId, QuestionSet, Vectors, to_grid
from store.versions import read_version


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage in the results.

    rank: the passage's rank, counted from 0. cosine: the cosine of the sentence with the question.
    terms: the question's terms that the sentence, its heading or the path of its document contains.
    names: the names in the sentence and in the headings above it, as keywords. headings: the
    headings above it, as keywords. clause_cosines: the cosines of the sentence with each clause of
    a question that asks several things, else ().
    """

    passage: PassageId
    rank: int
    text: str
    cosine: float
    terms: frozenset[str]
    names: frozenset[str]
    clause_cosines: tuple[float, ...] = ()
    headings: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PassageTexts:
    """The passages found, best first, with their texts and places."""

    ranked: tuple[PassageId, ...]
    passages: Mapping[PassageId, Passage]
    places: Mapping[PassageId, Sequence[Place]]


_AUXILIARIES = (
    "do does did done have has had can could will would should may might am if whom whose"
)


@cache
def list_function_terms() -> frozenset[str]:
    """Return the index terms of stop words and auxiliary verbs."""
    return frozenset(list_index_terms(f"{' '.join(STOP_WORDS)} {_AUXILIARIES}"))


def compute_term_weights(snapshot: Snapshot, question: str) -> dict[str, float]:
    """Map the question's terms to their idf, without function words."""
    return {
        term: idf
        for term, idf in compute_question_idf(snapshot, question).items()
        if term not in list_function_terms()
    }


def read_visible_places(
    connection: Connection, served: Snapshot, passages: Iterable[PassageId]
) -> dict[PassageId, list[Place]]:
    """Read the places of passages in the documents that the version shows."""
    places = read_places(connection, served.version.id, passages, served.hidden)
    if served.passes_filter is None:
        return places
    rows = served.select_visible_documents(
        [place.row for passage_places in places.values() for place in passage_places]
    )
    return {
        passage: [place for place in passage_places if place.row in rows]
        for passage, passage_places in places.items()
    }


def read_best_sets(
    connection: Connection, version_id: int, passages: Sequence[PassageId]
) -> dict[PassageId, QuestionSet]:
    """Read the question sets of passages at a version. Returns {} if the version was removed."""
    try:
        generation = read_version(connection, version_id).generation
    except NoSuchVersion:  # garbage collection has removed the version
        return {}
    ids = find_best_sets(connection, generation, passages)
    return {
        question_set.passage: question_set
        for question_set in read_sets_by_id(connection, ids.values())
    }


def list_sentences(
    texts: PassageTexts,
    sets: Mapping[PassageId, QuestionSet],
    question: Vectors,
    terms: Collection[str],
    encoder: Encoder,
    clauses: Sequence[Vectors] = (),
) -> list[Sentence]:
    """List all sentences of the passages, by rank and position.

    The built-in generator makes a question of each sentence, so the sentence's vector is stored in
    the passage's question set. Sentences without a stored vector are encoded now. `question` and
    each of its `clauses` is a (d,) vector.
    """
    sentences: list[Sentence] = []
    for rank, id_ in enumerate(texts.ranked):
        passage = texts.passages[id_]
        sentence_texts = [
            passage.text[start:end] for start, end in find_sentence_spans(passage.text)
        ]
        stored = _map_questions_by_text(sets.get(id_))
        vectors = _compute_vectors(passage, sentence_texts, stored, encoder)
        asked = np.array([question, *clauses], dtype=np.float64)
        cosines = vectors.astype(np.float64) @ asked.T / (GRID * GRID)
        headings = frozenset(normalise(heading) for heading in passage.heading)
        paths = [place.document for place in texts.places.get(id_, ())]
        above = frozenset(list_index_terms(" ".join((*passage.heading, *paths))))
        terms_by_text = map_texts_to_terms(sentence_texts)
        for text, (cosine, *by_clause) in zip(sentence_texts, cosines.tolist(), strict=True):
            has = above.union(terms_by_text[text]).intersection(terms)
            names = stored[text][1] if text in stored else headings
            sentences.append(Sentence(id_, rank, text, cosine, has, names, (*by_clause,), headings))
    return sentences


def _map_questions_by_text(
    questions: QuestionSet | None,
) -> dict[str, tuple[NDArray[np.int16], frozenset[str]]]:
    """Map the text of each incoming question to its vector and keywords."""
    if questions is None:
        return {}
    return {
        question.text: (questions.vectors[question.vector_row], question.keywords)
        for question in questions.questions
        if question.direction is Direction.INCOMING
    }


def _compute_vectors(
    passage: Passage,
    texts: Sequence[str],
    stored: Mapping[str, tuple[NDArray[np.int16], frozenset[str]]],
    encoder: Encoder,
) -> Vectors:
    """Return the (m, d) vectors of m texts, each encoded with its heading, as the generator
    does."""
    about = " > ".join(passage.heading)
    missing = [text for text in texts if text not in stored]
    new_vectors = to_grid(
        encoder.encode([f"{about}: {text}" if about else text for text in missing])
    )
    embedded = dict(zip(missing, new_vectors, strict=True))
    rows = [stored[text][0] if text in stored else embedded[text] for text in texts]
    return np.array(rows, dtype=np.int16).reshape(len(rows), encoder.dimensions)
