"""A question held against one version: its words, its names, and how like it each passage is.

BM25 has the statistics of exactly what is visible, so that a past version ranks as it did when it
was the head.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from operator import add
from sys import intern
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers, holds, largest_between
from hopsyncd.index.live_index import name_key
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.models.questions import sentence_spans
from store.records import Passage, PassageId, Vectors
from store.words import index_terms, plain, searchable, terms_of_each

# The usual constants of BM25 (Robertson & Zaragoza 2009, section 3.5).
K1 = 1.2
B = 0.75

Mentioned = Callable[[Sequence[str]], AbstractSet[str]]
"""Those of the names that the graph knows."""

Read = Callable[[Iterable[PassageId]], Mapping[PassageId, Passage]]

_PASSAGES_KEPT = 1 << 10  # of which the words of each sentence are known
_MIN_SHARE = 0.02  # of the idf of all terms
_MAX_NAME_WORDS = 8
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")
_WORD = re.compile(r"\w+")


def names_in(query: str, mentioned: Mentioned) -> list[str]:
    """The names known to the graph that the query uses: at each place the longest.

    A single word counts only if the query capitalises it or it has a digit.

    >>> names_in("Who played in Due South?", {"due south", "south", "played"}.intersection)
    ['due south']
    """
    words = _WORD.findall(_POSSESSIVE.sub("", query.replace("\u2019", "'")))
    parts = {
        (at, length): " ".join(words[at : at + length]).lower()
        for at in range(len(words))
        for length in range(min(_MAX_NAME_WORDS, len(words) - at), 0, -1)
        if length > 1 or not words[at][0].islower()
    }
    known = mentioned([*dict.fromkeys(parts.values())]) - STOP_WORDS
    found: list[str] = []
    end = 0
    for (at, length), name in parts.items():
        if at >= end and name in known:
            found.append(name)
            end = at + length
    return found


def worths(names: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    """What share of the query each name is: of the idf of its terms, `weights`.

    >>> worths(["due south"], {"play": 1.0, "due": 1.0, "south": 2.0})
    {'due south': 0.75}
    """
    total = sum(weights.values())
    terms = terms_of_each(word for name in names for word in name.split())
    found = {name: {term for word in name.split() for term in terms[word]} for name in names}
    return {
        name: sum(weights.get(term, 0.0) for term in sorted(of)) / total
        for name, of in found.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Which of the query's t terms each entry has.

    share: (t,) idf, summing to 1. has: (t, n) bool.
    """

    share: Floats
    has: NDArray[np.bool_]

    def held(self, entries: Integers) -> NDArray[np.bool_]:
        """(t, w) which of the terms each of the entries has."""
        return self.has.take(entries, axis=1)

    def of(self, entries: Integers) -> Floats:
        """(w,) the share of the query's words that each of the entries has."""
        return weighed(self.share, self.held(entries))

    def added(self, start: Integers, end: Integers) -> Floats:
        """(w,) the share that each end has, and the start beside it has not."""
        return weighed(self.share, self.held(end) & ~self.held(start))


def weighed(share: Floats, lines: NDArray[np.generic]) -> Floats:
    """(w,) the sum of (t, w) lines, each times its share.

    Line by line, since a matrix product may add up in another order at another place.
    """
    total = np.zeros(lines.shape[1])
    for part, line in zip(share.tolist(), lines, strict=True):
        total += part * line
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The query's words in one version.

    weights: see `idf_of`. scores: (n,) BM25 by entry. coverage: without terms that no passage has,
    or too many to tell them apart.
    """

    weights: Mapping[str, float]
    scores: Floats
    coverage: Coverage


def idf_of(snapshot: Snapshot, question: str) -> Mapping[str, float]:
    """The idf of each of the question's terms, also of those that no passage has."""
    terms = index_terms(question)
    _, of, _ = having(snapshot, terms)
    idf = _idf(snapshot, np.bincount(of, minlength=len(terms)))
    return dict(zip(terms, idf.tolist(), strict=True))


def having(snapshot: Snapshot, terms: Sequence[str]) -> tuple[Integers, Integers, Integers]:
    """The rows of `term` of visible passages that have the terms, which of them each has, and the
    entries."""
    keys = np.array([name_key(term) for term in terms], dtype=np.int64)
    rows, of = snapshot.index.postings["term_rows"].of_each(keys)
    entries = snapshot.index["term"]["entry"].take(rows).astype(np.int64)
    seen = holds(snapshot.statistics.visible.entries, entries)
    return (rows, of, entries) if seen.all() else (rows[seen], of[seen], entries[seen])


def _idf(snapshot: Snapshot, df: Integers) -> Floats:
    """log(1 + (n - df + 0.5) / (df + 0.5)), never negative, of terms that so many passages have."""
    idf: Floats = np.log1p((snapshot.statistics.passages - df + 0.5) / (df + 0.5))
    return idf


def words_of(snapshot: Snapshot, question: str) -> Words:
    """Look the question's words up."""
    index, statistics = snapshot.index, snapshot.statistics
    visible = statistics.visible.entries
    mean = max(statistics.words / max(statistics.passages, 1), 1.0)
    terms = index_terms(question)
    rows, of, entries = having(snapshot, terms)
    counts = index["term"]["count"].take(rows)
    df = np.bincount(of, minlength=len(terms))
    idf = _idf(snapshot, df)
    telling = (df > 0) & (idf > _MIN_SHARE * idf[df > 0].sum())
    words, scores = index["entries"]["words"], np.zeros(len(visible))
    has = np.zeros((int(telling.sum()), len(visible)), dtype=np.bool_)
    lines = iter(has)
    ends = np.cumsum(df)
    for first, end, worth, tells in zip(ends - df, ends, idf, telling, strict=True):
        at, count = entries[first:end], counts[first:end]
        saturation = K1 * (1 - B + B * words[at] / mean)
        scores[at] += worth * count * (K1 + 1) / (count + saturation)
        if tells:
            next(lines)[at] = True
    share = idf[telling]
    coverage = Coverage(share / share.sum() if len(share) else share, has)
    return Words(dict(zip(terms, idf.tolist(), strict=True)), scores, coverage)


@dataclass(frozen=True, slots=True, eq=False)
class QueryContext:
    """By entry and by row of the vectors.

    cosines: (r,) of the question with every row. names: those it uses that the graph knows, with
    what share of it each is; they are its keywords. by_words: (n,) BM25 as a share of the most that
    a passage could have. coverage: which passages have its words. terms: its index terms with their
    shares of its idf. read: gives passages of the version.
    """

    snapshot: Snapshot
    cosines: NDArray[np.float32]
    names: Mapping[str, float]
    by_words: Floats
    coverage: Coverage
    terms: Mapping[str, float]
    read: Read

    @classmethod
    def of(cls, question: str, vector: Vectors, snapshot: Snapshot, read: Read) -> Self:
        """Hold it against the snapshot."""
        cosines = snapshot.index.vectors.cosines_soon(vector)  # while words are looked up
        words = words_of(snapshot, question)
        names = worths(names_in(question, snapshot.mentioned), words.weights)
        total = sum(words.weights.values())
        return cls(
            snapshot=snapshot,
            cosines=cosines(),
            names=names,
            by_words=words.scores / ((K1 + 1) * total or 1.0),
            coverage=words.coverage,
            terms={term: idf / (total or 1.0) for term, idf in words.weights.items()},
            read=read,
        )

    def by_sentence(self, entries: Integers) -> Floats:
        """(m,) of each passage the best sentence, by its cosine and what share of the question's
        words it has, those of the headings among them: what stands together belongs together.

        Where the rows of a passage are not those of its sentences, all have its own cosine.
        """
        ids = [PassageId(id_) for id_ in self.snapshot.ids[entries].tolist()]
        passages = self.read(ids)
        having = {id_: _sentences_having(one.heading, one.text) for id_, one in passages.items()}
        every = frozenset[str]().union(*(words for _, words in having.values()))
        found = terms_by_word(self.terms, every)
        best = np.zeros(len(ids))
        for number, (entry, id_) in enumerate(zip(entries.tolist(), ids, strict=True)):
            if id_ not in having:  # a purge has removed it; the index in memory still has it
                continue
            count, words = having[id_]
            of_terms = dict[str, int]()
            for word in found.keys() & words.keys():
                for term in found[word]:
                    of_terms[term] = of_terms.get(term, 0) | words[word]
            shares = [0.0] * count
            for term, which in sorted(of_terms.items()):
                for at in range(count):
                    if which >> at & 1:
                        shares[at] += self.terms[term]
            cosines = self._of_sentences(entry, count)
            best[number] = max(map(add, cosines, shares), default=0.0)
        return np.maximum(best, 0.0)

    def _of_sentences(self, entry: int, count: int) -> list[float]:
        columns = self.snapshot.index["entries"]
        first, end = int(columns["first_row"][entry]), int(columns["end_row"][entry])
        whole, *rest = self.cosines[first:end].tolist()
        return rest if end == first + 1 + count else [whole] * count

    def first_cosines(self, entries: Integers) -> Floats:
        """(w,) of the question with the vector of each whole passage."""
        return self.cosines[self.snapshot.index["entries"]["first_row"][entries]].astype(np.float64)

    def of_edges(self, out: Integers, into: Integers) -> Floats:
        """(e,) Eq. 1 with what each edge carries: the incoming question's vector, all keywords."""
        index = self.snapshot.index
        cosines = self.cosines[index["incoming"]["row"][into]].astype(np.float64)
        likeness: Floats = (self._jaccards(out, into) + cosines) / 2
        return likeness

    def _jaccards(self, out: Integers, into: Integers) -> Floats:
        """(e,) of the query's names with those of both questions of each edge."""
        numbers = {self.snapshot.number_of(name) for name in self.names}
        jaccards = np.zeros(len(out))
        for at in range(len(out)):
            both = self._names("outgoing", int(out[at])) | self._names("incoming", int(into[at]))
            shared = len(both & numbers)
            if shared:
                jaccards[at] = shared / (len(both) + len(numbers) - shared)
        return jaccards

    def _names(self, side: str, question: int) -> set[int]:
        index = self.snapshot.index
        first = int(index[side]["first_keyword"][question])
        count = int(index[side]["keywords"][question])
        names: list[int] = index["keyword"]["name"][first : first + count].tolist()
        return set(names)

    def of_passages(self, entries: Integers) -> Floats:
        """(n,) Eq. 1 with each passage: its own vector, and the names of its sentences."""
        index = self.snapshot.index
        numbers = {self.snapshot.number_of(name) for name in self.names}
        columns, jaccards = index["entries"], np.zeros(len(entries))
        for at, entry in enumerate(entries.tolist()):
            rows = slice(int(columns["first_mention"][entry]), int(columns["end_mention"][entry]))
            names = set(index["mention"]["name"][rows].tolist())
            shared = len(names & numbers)
            if shared:
                jaccards[at] = shared / (len(names) + len(numbers) - shared)
        likeness: Floats = (jaccards + self.first_cosines(entries)) / 2
        return likeness


def terms_by_word(terms: Iterable[str], words: Iterable[str]) -> dict[str, frozenset[str]]:
    """Which of the terms each word has; without words that have none.

    Looked at are only words that begin like one of the terms.
    """
    wanted = frozenset(terms)
    begins = tuple({term[: max(min(len(term) - 1, 3), 1)] for term in wanted})
    known = terms_of_each(word for word in words if word.startswith(begins))
    return {
        word: wanted.intersection(terms)
        for word, terms in known.items()
        if not wanted.isdisjoint(terms)
    }


def words_in(text: str) -> tuple[str, ...]:
    """The distinct words of a text as full-text search compares them."""
    return tuple(map(intern, dict.fromkeys(_WORD.findall(plain(searchable(text))))))


@lru_cache(_PASSAGES_KEPT)
def _sentences_having(heading: tuple[str, ...], text: str) -> tuple[int, Mapping[str, int]]:
    """How many sentences a passage has, and which have each word, as bits; all those of headings.

    >>> _sentences_having(("Rome",), "It fell. It rose.")
    (2, {'it': 3, 'fell': 1, 'rose': 2, 'rome': 3})
    """
    spans, having = sentence_spans(text), dict[str, int]()
    for at, (start, end) in enumerate(spans):
        for word in words_in(text[start:end]):
            having[word] = having.get(word, 0) | 1 << at
    return len(spans), having | dict.fromkeys(words_in(" ".join(heading)), (1 << len(spans)) - 1)


def best_cosines(snapshot: Snapshot, cosines: NDArray[np.float32]) -> Floats:
    """(n,) of each passage that of its best row; there must be one."""
    count = len(snapshot.statistics.visible.entries)
    columns = snapshot.index["entries"]
    first, end = columns["first_row"][:count], columns["end_row"][:count]
    return largest_between(cosines[: end[-1]], first, end).astype(np.float64)


def fit(snapshot: Snapshot, vector: Vectors) -> float:
    """The cosine of a text with what is most like it."""
    visible = snapshot.statistics.visible.entries
    if not visible.any():
        return 0.0
    return float(best_cosines(snapshot, snapshot.index.vectors.cosines(vector))[visible].max())
