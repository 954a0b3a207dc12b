"""Finds the day of a dated section or document, such as the notes of a meeting.

The day is in the heading of the section, in the name of its file, or in a line "Date: ...". So the
sentences of the section need not repeat the day. The day answers "When was the meeting about the
crane?" if the heading or the name has all words of the question. Words for a meeting itself, such
as "talk" or "decide", may be missing. If the question has such a word, the other words may be
anywhere in the section.

If a question asks for the latest or the first section, or names a day, a month or a year, the
sections of other times that fit it as well are not used.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from hopsyncd.retrieve.answering.extractive import choose_sentences
from hopsyncd.retrieve.sentences import PassageTexts, Sentence
from hopsyncd.text.dates import (
    MONTH_PATTERN,
    MONTHS,
    NOT_IN_TITLE,
    find_date_text,
    find_dates,
    find_days_in_name,
)
from hopsyncd.text.words import list_index_terms

_LEAST_COVERED = 0.95  # as a share of the idf of the question's words
_EVENTS = frozenset(
    list_index_terms(
        "meeting meet met call talk talked discuss discussed discussion speak spoke decide decided"
        " decision session review workshop minutes conversation appointment agree agreed happen"
        " happened place take took hold held last next about on"
    )
)
_OWNED = r"\b(?:the|this|our|my|your|his|her|its|their|der|die|das|unsere?[mnrs]?)"
# A noun for a dated section or its subject. "Her last name" asks for no section.
_SECTION = (
    r" (?:(?!(?:of|in|on|at|for|from|to|before|after|the|an?|and|that)\b)\w+ ){0,2}?"
    r"(?:meeting|call|talk|discussion|decision|session|review|workshop|minutes|conversation"
    r"|appointment|visit|interview|entry|entries|note|log|report|section|update|version|release"
    r"|time(?! to\b)|mal|\w*(?:sitzung|besprechung|treffen|gespr\u00e4ch|termin|protokoll|eintrag"
    r"|notiz|bericht|version|versammlung))(?:e?s|en?)?\b"
)
# "The last three days" and "last Monday" are no sections, but "the last weekly meeting" is one.
_NOT_SPAN = (
    r"(?! (?:\d|(?:few|two|three|four|five|days?|weeks?|months?|years?|quarters?|decades?|century"
    r"|centuries|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b))"
)
_LATEST = re.compile(
    rf"{_OWNED} (?:last|next|letzte[nrms]?|n\u00e4chste[nrms]?){_NOT_SPAN}{_SECTION}"
    r"|(?<!at the )(?<!at )\b(?:latest|newest|most recent)\b"
    r"|(?<!how long )\b(?:did|was|were|have|has|had)"
    rf" (?:\w+ )?(?!{_OWNED} )\w+ (?<!to )last{_NOT_SPAN} \w",
    re.IGNORECASE,
)
_FIRST = re.compile(rf"{_OWNED} (?:first|earliest|oldest|erste[nrms]?){_SECTION}", re.IGNORECASE)
_MONTH = re.compile(
    rf"\b{NOT_IN_TITLE}(?:in|during|of|im|en) ({MONTH_PATTERN})"
    r"(?:,? (?:of |del? )?([12]\d{3}))?(?!\w| \d)",
    re.IGNORECASE,
)
_YEAR = re.compile(
    rf"\b{NOT_IN_TITLE}(?:in|during|of|im|en) (?:the year )?([12]\d{{3}})(?![\w.-])", re.IGNORECASE
)
_TIME_WORDS = frozenset(
    list_index_terms(
        f"last latest newest most recent next first earliest oldest {' '.join(MONTHS)}"
    )
)
_LEAST_FIT = 0.5  # as a share of the idf of the question's words
_AS_GOOD = 0.8  # as a share of the best section's fit
_DATE_LINE = re.compile(r"(?:date|day|when|datum|fecha|data)\s*:\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SectionDate:
    """The day of a section. sentences: the text that has the day; then, if the headings and the
    path lack words of the question, the sentence of the section that says most about it."""

    day: str
    sentences: tuple[Sentence, ...]


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
        above = frozenset(list_index_terms(" ".join(_list_names(texts, rank))))
        inside = above.union(*(sentence.terms for sentence in passage_sentences))
        if not is_covered_by(inside if asks_for_event else above):
            continue
        dated_terms = (sentence.terms for sentence in dated if sentence.rank == rank)
        if any(terms & weights_to_find.keys() - above for terms in dated_terms):
            return None
        for text in _list_dated_texts(texts, rank, passage_sentences):
            if day := find_date_text(text):
                shown = replace(passage_sentences[0], passage=id_, text=text)
                best = [] if is_covered_by(above) else choose_sentences(passage_sentences, weights)
                return SectionDate(day, (shown, *best[:1]))
    return None


def _list_names(texts: PassageTexts, rank: int) -> tuple[str, ...]:
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


def keep_asked_time(
    texts: PassageTexts, sentences: Sequence[Sentence], weights: Mapping[str, float], question: str
) -> Sequence[Sentence]:
    """Leave out the sentences of dated sections from other times than the question asks for.

    Only sections that fit the question about as well as the best dated section are left out. If no
    dated section is of the asked time, all sentences are returned. `weights` is the idf of the
    question's terms.
    """
    choose = _read_asked_days(question)
    if choose is None:
        return sentences
    days = _find_fitting_days(texts, sentences, weights)
    asked = choose(days.values())
    if not asked:
        return sentences
    dropped = {rank for rank, day in days.items() if day not in asked}
    return [sentence for sentence in sentences if sentence.rank not in dropped]


def _read_asked_days(question: str) -> Callable[[Iterable[str]], set[str]] | None:
    """Return a function that selects the asked days from ISO days, or None if any day may be meant.

    >>> days = ("2025-03-12", "2026-02-03", "2026-03-24")
    >>> choose = _read_asked_days("What did we decide in the last meeting?")
    >>> choose(days) if choose else None
    {'2026-03-24'}
    >>> choose = _read_asked_days("Who came in February?")
    >>> choose(days) if choose else None
    {'2026-02-03'}
    >>> choose = _read_asked_days("What was said at the first crane meeting?")
    >>> choose(days) if choose else None
    {'2025-03-12'}
    >>> choose = _read_asked_days("What was decided in the last weekly meeting?")
    >>> choose(days) if choose else None
    {'2026-03-24'}
    >>> for question in (
    ...     "How long does it last?",
    ...     "How long did the war last in Europe?",
    ...     "What was decided last year?",
    ...     "What is his last name?",
    ...     "What was her last name?",
    ...     "What is the last step of the release?",
    ...     "Who won the first prize?",
    ...     "Who directed Four Days In November?",
    ... ):
    ...     assert _read_asked_days(question) is None, question
    """
    named = {date.day for date in find_dates(question) if date.order is None}
    if named:
        return named.intersection
    if month := _MONTH.search(question):
        number, year = MONTHS.get(month[1].lower(), 0), month[2] or ""
        return lambda days: {
            day for day in days if day[5:7] == f"{number:02}" and day.startswith(year)
        }
    if year_match := _YEAR.search(question):
        return lambda days: {day for day in days if day.startswith(year_match[1])}
    for pattern, pick in ((_LATEST, max), (_FIRST, min)):
        if pattern.search(question):
            return partial(_pick_day, pick)
    return None


def _pick_day(pick: Callable[[Iterable[str]], str], days: Iterable[str]) -> set[str]:
    found = {*days}
    return {pick(found)} if found else set()


def _find_fitting_days(
    texts: PassageTexts, sentences: Sequence[Sentence], weights: Mapping[str, float]
) -> dict[int, str]:
    """Map the rank of each dated passage that fits the question about as well as the best one to
    its ISO day."""
    wanted = {
        term: worth
        for term, worth in weights.items()
        if term not in _EVENTS and term not in _TIME_WORDS and not term.isdigit()
    }
    total = sum(wanted.values())
    days, fits = dict[int, str](), dict[int, float]()
    for rank in range(len(texts.ranked)):
        inside = [sentence for sentence in sentences if sentence.rank == rank]
        day = _find_day(texts, rank, inside)
        if day and inside:
            terms = frozenset[str]().union(*(sentence.terms for sentence in inside))
            days[rank] = day
            fits[rank] = sum(wanted[term] for term in terms & wanted.keys()) / total if total else 1
    least = max(_AS_GOOD * max(fits.values(), default=0.0), _LEAST_FIT)
    return {rank: day for rank, day in days.items() if fits[rank] >= least}


def _find_day(texts: PassageTexts, rank: int, sentences: Sequence[Sentence]) -> str:
    """Return the ISO day of a passage, or "" if it has none."""
    for text in _list_dated_texts(texts, rank, sentences):
        for date in find_dates(text):
            if date.order is None:
                return date.day
    paths = (place.document for place in texts.places.get(texts.ranked[rank], ())[:1])
    return next((day for path in paths for day in find_days_in_name(path)), "")
