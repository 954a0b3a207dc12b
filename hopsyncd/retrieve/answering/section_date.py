"""Finds the day of a dated section or document, such as the notes of a meeting.

The day is in the heading of the section, in the name of its file, or in a line "Date: ...". So the
sentences of the section need not repeat the day. The day answers "When was the meeting about the
crane?" if the heading or the name has all words of the question. Words for a meeting itself, such
as "talk" or "decide", may be missing. If the question has such a word, the other words may be
anywhere in the section.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from hopsyncd.retrieve.sentences import PassageTexts, Sentence
from hopsyncd.text.dates import find_date_text
from hopsyncd.text.words import index_terms

_LEAST_COVERED = 0.95  # as a share of the idf of the question's words
_EVENTS = frozenset(
    index_terms(
        "meeting meet met call talk talked discuss discussed discussion speak spoke decide decided"
        " decision session review workshop minutes conversation appointment agree agreed happen"
        " happened place take took hold held last next about on"
    )
)
_DATE_LINE = re.compile(r"(?:date|day|when|datum|fecha|data)\s*:\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SectionDate:
    """The day of a section. sentence: the text that has the day."""

    day: str
    sentence: Sentence


def find_section_date(
    texts: PassageTexts,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    dated: Iterable[Sentence],
) -> SectionDate | None:
    """Find the day of the first section that a question with "when" is about.

    weights: the idf of the question's terms. dated: the sentences that contain a date. Returns None
    if no section matches, or if a dated sentence of the section has a word of the question that the
    headings and the path lack, because this sentence is a better answer.
    """
    weights_to_find = {term: worth for term, worth in weights.items() if term not in _EVENTS}
    total = sum(weights_to_find.values())
    if not total:
        return None

    def is_covered_by(terms: frozenset[str]) -> bool:
        return (
            sum(weights_to_find[term] for term in terms & weights_to_find.keys())
            >= _LEAST_COVERED * total
        )

    asks_for_event = len(weights_to_find) < len(weights)
    for rank, id_ in enumerate(texts.ranked):
        passage_sentences = [sentence for sentence in sentences if sentence.rank == rank]
        if not passage_sentences:
            continue
        above = frozenset(index_terms(" ".join(_names_of(texts, rank))))
        inside = above.union(*(sentence.terms for sentence in passage_sentences))
        if not is_covered_by(inside if asks_for_event else above):
            continue
        dated_terms = (sentence.terms for sentence in dated if sentence.rank == rank)
        if any(terms & weights_to_find.keys() - above for terms in dated_terms):
            return None
        for text in _list_dated_texts(texts, rank, passage_sentences):
            if day := find_date_text(text):
                return SectionDate(day, replace(passage_sentences[0], passage=id_, text=text))
    return None


def _names_of(texts: PassageTexts, rank: int) -> tuple[str, ...]:
    id_ = texts.ranked[rank]
    paths = (place.document for place in texts.places.get(id_, ()))
    return (*texts.passages[id_].heading, *paths)


def _list_dated_texts(
    texts: PassageTexts, rank: int, sentences: Sequence[Sentence]
) -> Iterator[str]:
    """List the texts that may have the day of a section, most specific first. The order is: a line
    "Date: ...", the headings from the lowest, and the file name.
    """
    id_ = texts.ranked[rank]
    for sentence in sentences:
        for line in sentence.text.splitlines():
            if _DATE_LINE.match(line.strip()):
                yield line.strip()
    yield from reversed(texts.passages[id_].heading)
    for place in texts.places.get(id_, ())[:1]:
        yield PurePosixPath(place.document).stem
