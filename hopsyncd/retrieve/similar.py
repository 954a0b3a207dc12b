"""Shows near-duplicates, and pages made from one template, as one hit.

Two passages are similar if they share four fifths of their distinct words, headings included (a
Jaccard index of at least 0.8). A passage is listed below the best hit that it is similar to, and
the next passage moves up. A similar passage stays a separate hit if it has a word of the question
that the better hit lacks, because the user may mean this passage.

Sync programs make conflict copies of files. A hit that is only in a conflict copy is listed below
the original, unless it has a word of the question that the original lacks.

The ranking is read from the top until k hits are found. Only passages of the ranking are compared,
so hidden and filtered-out passages have no effect.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.retrieve.query_context import map_words_to_terms, split_into_words
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.text.words import list_index_terms
from store.records import Passage, PassageId

Read = Callable[[Iterable[PassageId]], Mapping[PassageId, Passage]]
FindCopies = Callable[[Sequence[PassageId]], Collection[PassageId]]

SPARE = 32  # extra passages to rank, which replace collapsed hits.
_SAME, _OF = 4, 5  # similar passages share four fifths of their words.
_MOST_COMPARED = 100  # hits with which a passage is compared.
_NEGATIONS = frozenset({"no", "not"})
_KEPT = 1 << 10


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The hits with their similar passages.

    looked_at: the number of passages that were read from the top of the ranking.
    """

    hits: list[Ranked]
    looked_at: int


def collapse_similar(
    ranked: Sequence[Ranked], question: str, k: int, read: Read, find_copies: FindCopies
) -> Collapsed:
    """Return the first k hits of a ranking, and list passages similar to a hit below it.

    `find_copies` returns the passages that occur only in conflict copies.
    """
    hits: dict[PassageId, Ranked] = {}
    similar: dict[PassageId, list[PassageId]] = {}
    words: dict[PassageId, frozenset[str]] = {}
    looked_at = 0
    asked = _AskedWords(question)
    for batch in (ranked[:k], ranked[k:]):
        if len(hits) >= k:
            break
        words |= {
            id_: _list_words(passage) for id_, passage in read([r.passage for r in batch]).items()
        }
        for candidate in batch:
            if len(hits) >= k:
                break
            looked_at += 1
            candidate_words = words.get(candidate.passage, frozenset())
            first = next(
                (hit for hit in similar if _are_similar(words[hit], candidate_words, asked)), None
            )
            if first is not None:
                similar[first].append(candidate.passage)
                continue
            hits[candidate.passage] = candidate
            if candidate_words and len(similar) < _MOST_COMPARED:
                similar[candidate.passage] = []
    groups = {id_: [id_, *similar.get(id_, ())] for id_ in hits}
    copies = find_copies([id_ for group in groups.values() if group[1:] for id_ in group])
    known = {hit.passage: hit for hit in ranked[:looked_at]}
    distinct = list[Ranked]()
    for id_, group in groups.items():
        shown = id_
        if id_ in copies:
            originals = (
                passage
                for passage in group
                if passage not in copies and _are_similar(words[passage], words[id_], asked)
            )
            shown = next(originals, id_)
        others = tuple(passage for passage in group if passage != shown)
        distinct.append(replace(known[shown], score=hits[id_].score, similar=others))
    return Collapsed(distinct, looked_at)


class _AskedWords:
    """Checks which words of a question distinguish similar passages."""

    def __init__(self, question: str) -> None:
        usual = STOP_WORDS - _NEGATIONS
        words = (word for word in question.split() if word.lower() not in usual)
        self._terms = frozenset(list_index_terms(" ".join(words)))

    def are_added(self, new: AbstractSet[str], known_words: AbstractSet[str]) -> bool:
        """Return whether the new words contain a word of the question that the known words lack."""
        terms = map_words_to_terms(self._terms, new)
        added = frozenset[str]().union(*terms.values())
        return bool(
            added and added - frozenset().union(*map_words_to_terms(added, known_words).values())
        )


def _are_similar(first: frozenset[str], second: frozenset[str], asked: _AskedWords) -> bool:
    """Return whether the second passage is similar to the first and adds no word of the
    question."""
    fewer, more = sorted((len(first), len(second)))
    if fewer * _OF < more * _SAME:
        return False
    same = len(first & second)
    if same * _OF < (fewer + more - same) * _SAME:
        return False
    return not asked.are_added(second - first, first)


@lru_cache(_KEPT)
def _find_words(heading: tuple[str, ...], text: str) -> frozenset[str]:
    return frozenset(chain.from_iterable(split_into_words(heading, text)))


def _list_words(passage: Passage) -> frozenset[str]:
    return _find_words(passage.heading, passage.text)
