"""A question held against one version: all that a search of the graph needs to know of it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView
from hopsyncd.models.questions import sentence_spans
from hopsyncd.retrieve.bm25 import K1, Postings, WordIndex
from hopsyncd.retrieve.seeds import names_in, seeds, worths
from hopsyncd.retrieve.walk import Coverage
from store.records import GRID, Passage, PassageId, Vectors
from store.words import index_terms, searchable

Floats = NDArray[np.float64]
Read = Callable[[Iterable[PassageId]], Mapping[PassageId, Passage]]

_WORDS_KEPT = 1 << 14
_PASSAGES_KEPT = 1 << 12  # of which it is known where their sentences are


@dataclass(frozen=True, slots=True, eq=False)
class QueryContext:
    """cosines: (r,) of the question with every row of the view. names: those it uses that the graph
    knows, with what share of it each is; they are its keywords. by_words: (n,) BM25 as a share of
    the most that a passage could have. coverage: which passages have its words. terms: its index
    terms with their shares of its idf. read: gives passages of the version.
    """

    view: GraphView
    cosines: Floats
    names: Mapping[str, float]
    by_words: Floats
    coverage: Coverage
    terms: Mapping[str, float]
    read: Read

    @classmethod
    def of(
        cls,
        question: str,
        vector: Vectors,
        view: GraphView,
        words: WordIndex,
        postings: Postings,
        read: Read,
    ) -> Self:
        """Hold it against the view."""
        weights = words.weights(question, postings)
        total = sum(weights.values())
        return cls(
            view=view,
            cosines=(view.rows @ vector.astype(np.float32)).astype(np.float64) / (GRID * GRID),
            names=worths(names_in(question, view.mentioned), weights),
            by_words=words.scores(question, postings) / ((K1 + 1) * total or 1.0),
            coverage=words.coverage(question, postings),
            terms={term: idf / (total or 1.0) for term, idf in weights.items()},
            read=read,
        )

    def seeds(self) -> Floats:
        """(n,) where our walk begins: mass that sums to 1."""
        return seeds(self.view, self.cosines, self.by_words, self.names)

    def by_sentence(self, positions: Sequence[int]) -> Floats:
        """(m,) of each passage the best sentence, by its cosine and what share of the question's
        words it has, those of the headings among them: what stands together belongs together.

        Where the rows of a passage are not those of its sentences, all have its own cosine.
        """
        ids = [PassageId(int(id_)) for id_ in self.view.passage[list(positions)]]
        passages = self.read(ids)
        found = _finder(self.terms)
        best = np.zeros(len(ids))
        for number, (position, id_) in enumerate(zip(positions, ids, strict=True)):
            passage = passages.get(id_)
            if passage is None:  # purged since
                continue
            above = found(" ".join(passage.heading))
            spans = _spans_of(passage.text)
            cosines = self._of_sentences(position, len(spans))
            for (start, end), cosine in zip(spans, cosines, strict=True):
                has = above | found(passage.text[start:end])
                best[number] = max(best[number], cosine + sum(self.terms[term] for term in has))
        return best

    def _of_sentences(self, position: int, count: int) -> list[float]:
        first = int(self.view.passage_row[position])
        whole, *rest = self.cosines[first : first + 1 + count].tolist()
        end = self.view.spans.bounds[2 * np.searchsorted(self.view.spans.bounds[::2], first) + 1]
        return rest if int(end) == first + 1 + count else [whole] * count

    def of_edges(self) -> Floats:
        """(e,) Eq. 1 with what each edge carries: the incoming question's vector, all keywords."""
        keywords = self.view.keywords.of_edges.jaccards(self.names)
        return (keywords + self.cosines[self.view.answer_row]) / 2

    def of_passages(self) -> Floats:
        """(n,) Eq. 1 with each passage: its own vector and keywords."""
        keywords = self.view.keywords.of_passages.jaccards(self.names)
        return (keywords + self.cosines[self.view.passage_row]) / 2


def _finder(terms: Iterable[str]) -> Callable[[str], set[str]]:
    """Finds which of the terms a text has: of the words that begin like one, those that are."""
    wanted = frozenset(terms)
    if not wanted:
        return lambda _: set()
    begins = "|".join(sorted({re.escape(term[: max(min(len(term) - 1, 3), 1)]) for term in wanted}))
    like_one = re.compile(rf"\b(?:{begins})\w*", re.IGNORECASE)

    def found(text: str) -> set[str]:
        words = like_one.findall(searchable(text))
        return {term for word in words for term in _terms_of(word.lower())} & wanted

    return found


@lru_cache(_PASSAGES_KEPT)
def _spans_of(text: str) -> list[tuple[int, int]]:
    return sentence_spans(text)


@lru_cache(_WORDS_KEPT)
def _terms_of(word: str) -> tuple[str, ...]:
    return tuple(index_terms(word))
