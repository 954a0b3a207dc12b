"""Finds a short answer: a value of the kind asked for, such as a date, in a cited sentence.

First, every value of that kind in the sentences most like the question is scored by its context.
Then the best value is scored by its lead over the other values and by its sentence. The value is
shown only if it is probably right. docs/benchmarks.md reports how often short answers are correct.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hopsyncd.models.keywords import normalise
from hopsyncd.models.language import Entity, EntityFinder
from hopsyncd.retrieve.answering.extractive import Kind, QuestionNeeds
from hopsyncd.retrieve.sentences import Sentence
from hopsyncd.retrieve.strength import compute_log_odds, compute_probability
from hopsyncd.text.words import list_index_terms

# Weights for the probability that a value in a sentence is the value asked for.
FITS: Mapping[str, float] = {
    "cosine": 0.933,
    "behind": -3.270,
    "rank": -1.382,
    "around": -3.728,
    "covered": 0.293,
    "passage": -1.702,
    "other_kind": 6.798,
    "uncounted": -0.598,
    "near": 2.212,
    "bias": 0.556,
}


# Weights for the probability that the best value is right.
RIGHT: Mapping[str, float] = {
    "odds": 0.108,
    "lead": 0.461,
    "few": 5.789,
    "again": -0.207,
    "near": 0.596,
    "held": 0.285,
    "bias": -2.945,
}


# Weights for the probability that the documents contain an answer.
HELD: Mapping[str, float] = {
    "cosine": 8.011,
    "ahead": 6.746,
    "unnamed": -7.335,
    "unmet": -3.336,
    "long": 2.832,
    "lost": -2.0,  # fitted alone, with the other weights fixed, like the next weights
    "absent": -3.0,
    "unknown": -8.0,
    "valueless": -1.5,
    "bias": -4.550,
}


_ONES = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    "|sixteen|seventeen|eighteen|nineteen"
)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_WORDS = rf"(?:(?:{_TENS})(?:[ -](?:{_ONES}))?|{_ONES})(?: hundred)?"
_SCALE = r"(?:[ -](?:hundred|thousand|million|billion|trillion))?"
_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_NUMBER = rf"(?:(?:{_DIGITS})|\b(?:{_WORDS})\b){_SCALE}"
_UNIT = (
    r"(?:milli|micro|nano)?seconds?|minutes?|hours?|days?|weeks?|fortnights?|months?|quarters?"
    r"|years?|decades?|centur(?:y|ies)|pay periods?"
)
_PARTS = "halves|thirds?|fourths?|quarters?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?"
# `a third` can also begin "a third party", and `two quarters` can be a length of time.
_FRACTION = (
    rf"\b(?:an?|{_ONES})(?:-(?:{_PARTS})"
    rf"| (?!quarters(?! of\b))(?:{_PARTS})(?<=s)| (?:{_PARTS})(?<!s)(?= of\b))\b"
)
_CURRENCIES = "euros?|dollars?|pounds?|cents?|francs?|yen|USD|EUR|GBP|CHF"
_MEASURES = (
    "[KMGT]i?B|[KMGT]?bits?|(?:kilo|mega|giga)?bytes?|percent|per cent|person-hours?|[kMG]?Hz|px"
    "|pixels?|dpi|[kcm]m|kg|mg|ml|degrees?|miles?|(?:kilo|centi|milli)?met(?:re|er)s?|feet|inches"
    "|(?:kilo)?grams?|lit(?:re|er)s?|characters?|letters?|words?"
    f"|{_CURRENCIES}"
)
_OF_TIME = "(?:business|working|work|calendar|consecutive|full|more|additional|whole|week)"
_HALF = "(?: and a half)?"
_TIME = rf"(?:(?:{_NUMBER}){_HALF}|\ban?\b|\ba few)[ .-](?:{_OF_TIME} )?(?:{_UNIT})\b(?!-){_HALF}"
# `2 or 3 days`, `7, then 2 more hours` and `2 hours and 30 minutes` are one duration each.
_SHORT_OF_UNIT = rf"(?:(?:{_NUMBER})(?: ?- ?|,? (?:to|or|and|then|and then) )){{0,2}}"
_AND_TIME = rf"(?:,? (?:and|plus|then|and then) {_TIME}){{0,2}}"
# `90s`, `3 h 10 min`: abbreviated units count only after digits, and not in `the 1990s`.
_BRIEF_TIME = (
    r"\d{1,3}(?:\.\d+)? ?(?:h|hrs?|min|mins|secs?|s)\b(?: \d{1,2} ?(?:min|mins|secs?|s)\b)?"
    r"|\d+ ?ms\b"
)
_WEEKDAYS = "Mondays?|Tuesdays?|Wednesdays?|Thursdays?|Fridays?|Saturdays?|Sundays?"
_FREQUENCY = (
    rf"(?:once|twice|(?:{_NUMBER}) times) (?:an?|per|every) (?:{_UNIT})"
    rf"|every (?:(?:{_NUMBER}) |other )?(?:{_UNIT})"
    r"|(?:bi-?|semi-?)?(?:hourly|daily|weekly|monthly|quarterly|yearly|annually)"
)
_VALUE_PATTERNS: dict[Kind, re.Pattern[str]] = {
    "duration": re.compile(
        rf"(?<![\w.-])(?:{_SHORT_OF_UNIT}{_TIME}{_AND_TIME}|{_BRIEF_TIME})", re.IGNORECASE
    ),
    "frequency": re.compile(rf"\b(?:{_FREQUENCY})\b", re.IGNORECASE),
    "version": re.compile(r"(?<![\w.-])v?\d+(?:\.\d+){1,3}(?:[a-z]+\d*)?(?![\w-]|\.\d)"),
    "weekday": re.compile(rf"\b(?:{_WEEKDAYS})\b"),
    "number": re.compile(
        rf"(?<=\d:)\d{{2,5}}\b"  # the port in an address
        rf"|(?<![\w./:#(-])(?:{_FRACTION}|(?:[$\u20ac\u00a3] ?|-)?(?:(?!one\b){_NUMBER})"
        rf"(?:%|(?:{_MEASURES})\b|(?![\w:/]|[.,]\d|-\d))(?: ?(?:[%\u20ac]|(?:{_MEASURES})\b))?)",
        re.IGNORECASE,
    ),
    "code": re.compile(
        r"`[^`\s][^`\n]{0,60}`|(?<![\w`.])(?:--?[a-z][\w-]+|[:/][a-z][\w/-]+|\w+\(\)"
        r"|[A-Z]+_[A-Z_]+|[a-z]+(?:[-_.][a-z]+){2,}|[\w-]+(?:/[\w.-]+)*\.[a-z]{2,4}\b)",
    ),
}
# An entity that is only a length of time, an age or a frequency, such as `the last six hours`.
_NO_DATE = re.compile(
    r"(?:(?:the|about|around|nearly|almost|roughly|over|under|just|only|some|at least|at most|up to"
    r"|more than|less than|first|last|past|next|another|every|each|per)\s+)*"
    rf"(?:{_SHORT_OF_UNIT}{_TIME}{_AND_TIME}|(?:other )?(?:{_UNIT})|{_FREQUENCY})(?: old| long)?",
    re.IGNORECASE,
)
# A length of time says when only with one of these words: `after two days`, `two days later`.
_TO_MOMENT = re.compile(
    r"\b(?:after|within|every|before|until|in|by|no later than)"
    r"(?: (?:the|about|around|another|a further|at least|at most|more than|less than|up to))*\s\Z",
    re.IGNORECASE,
)
_FROM_MOMENT = re.compile(
    r"\s(?:later|before|after|prior|ago|in advance|beforehand|earlier)\b", re.IGNORECASE
)
_BEFORE = 40  # characters
# The number of a list item or a section, also inside a sentence that spans several items.
_ITEM_NUMBER = re.compile(r"(?:^|\n|[-*] )\s*(?:[-*]\s*)?(\(?\d+(?:\.\d+)*[.)]?)(?=\s)")
_TIME_AFTER = re.compile(rf"[ -](?:[a-z]+ )?(?:{_UNIT})\b", re.IGNORECASE)
_SHARE = re.compile(rf"%|per ?cent|\b(?:{_PARTS})\b")
_MONEY = re.compile(rf"[$\u20ac\u00a3]|\b(?:{_CURRENCIES}|JPY|DKK|NOK|SEK)\b")
# These numbers count nothing: negative numbers, fractions and percentages.
_NO_COUNT = re.compile(rf"^-|\.\d|%|[ -](?:{_PARTS})$")
_FOLLOWING = re.compile(r"[ -][\w-]+")
_AFTER = re.compile(
    rf"(?:{_FOLLOWING.pattern}){{0,3}}"
)  # up to three words, which may contain the counted noun


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a text, at text[start:end].

    after: up to three words that follow the value, which may be its unit.
    """

    start: int
    end: int
    text: str
    after: str

    @property
    def counts_time(self) -> bool:
        """Whether the number counts units of time, such as days, and so is a duration."""
        return bool(_TIME_AFTER.match(self.after))


def find_values(text: str, kind: Kind, entities: Sequence[Entity]) -> Iterator[Value]:
    """Find the values of a kind in a sentence with these entities. Skips the numbers of list items.

    `8. It lasts for three years.` contains the duration `three years`, but no number and no date.
    """
    numbers = {
        match.start(1)
        for match in _ITEM_NUMBER.finditer(text)
        # `8 hours` at the beginning of a line is a duration, and `8. Hours` is not.
        if kind != "duration" or match[1].endswith((".", ")"))
    }
    spans = [
        found.span()
        for found in (_VALUE_PATTERNS[kind].finditer(text) if kind in _VALUE_PATTERNS else ())
    ]
    if kind == "date":
        spans = [
            (entity.start, entity.end)
            for entity in entities
            if entity.kind == kind and not _NO_DATE.fullmatch(text, entity.start, entity.end)
        ]
    for start, end in spans:
        if start not in numbers and (bare := text[start:end].strip("` ")):
            yield Value(start, end, bare, _find_words_after(text, end))


def find_moments(text: str, entities: Sequence[Entity]) -> Iterator[tuple[Value, Kind]]:
    """Yield the dates, and the durations that say when something happens, such as "in two days".

    The second value of each pair is "date" or "duration".

    >>> [value.text for value, _ in find_moments("It takes six hours. It ends after two days.", ())]
    ['after two days']
    """
    for value in find_values(text, "date", entities):
        yield value, "date"
    for value in find_values(text, "duration", entities):
        from_word = _TO_MOMENT.search(text, max(value.start - _BEFORE, 0), value.start)
        to_word = _FROM_MOMENT.match(text, value.end)
        if from_word or to_word:
            start = from_word.start() if from_word else value.start
            end = to_word.end() if to_word else value.end
            yield Value(start, end, text[start:end], _find_words_after(text, end)), "duration"


def _find_words_after(text: str, end: int) -> str:
    match = _AFTER.match(text, end)
    return match[0] if match else ""


_MIN_RIGHT = 0.45  # A short answer is shown if it is right with at least this probability.
_MIN_ODDS = -1.5  # The value must have these log odds even if no other value was found.
_SENTENCES = 40  # the sentences most like the question, which are searched for values
_NEAR = 60  # characters around a value in which words of the question count
_FEW = frozenset("0 1 2 two three four".split())
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_PATH = re.compile(r"^[~.]{0,2}/|/.*\.\w+$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that may be the short answer, with the features that score it."""

    text: str
    kind: Kind
    sentence: Sentence
    features: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Short:
    """The most likely short answer, its sentence, and the features that score it.

    is_counted: False if the question counts things and the number counts other things. covered: the
    idf-weighted share of the question's words that occur in the sentence or in the headings above
    the sentence.
    """

    text: str
    sentence: Sentence
    features: Mapping[str, float]
    is_counted: bool = True
    covered: float = 1.0


def find_candidates(
    question: str,
    asked: QuestionNeeds,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    language: EntityFinder,
) -> list[Candidate]:
    """Find the values of the kind asked for in the sentences most like the question.

    Values that the question contains are left out, and numbers that are unlikely to answer it.
    `weights` is the idf of the question's terms.
    """
    if not sentences:
        return []
    named, words = f" {normalise(question)} ", set(list_index_terms(question))
    covered = _unite_terms(sentences)
    around = _find_best_neighbours(sentences)
    best = max(sentence.cosine for sentence in sentences)
    first = sorted(sentences, key=lambda sentence: -sentence.cosine)[:_SENTENCES]
    texts = [sentence.text for sentence in first] if asked.kind in ("date", "moment") else []
    entities = language.find_entities(texts) if texts else [()] * len(first)
    candidates = []
    for sentence, of_sentence in zip(first, entities, strict=True):
        for value, kind in _list_values(sentence.text, asked.kind, of_sentence):
            is_named = f" {normalise(value.text)} " in named
            counted = not asked.counted.isdisjoint(list_index_terms(value.text + value.after))
            if kind == "number" and not _is_wanted(value, asked, counted):
                continue
            if asked.is_identifier and _PATH.search(value.text):
                continue
            if is_named or words.issuperset(list_index_terms(value.text)):
                continue
            features = {
                "cosine": sentence.cosine,
                "behind": best - sentence.cosine,
                "rank": float(np.log1p(sentence.rank)),
                "around": max(around[sentence] - sentence.cosine, 0.0),
                "covered": _share(sentence.terms, weights),
                "passage": _share(covered[sentence.rank], weights),
                "other_kind": float(asked.kind == "moment" and kind == "duration"),
                "uncounted": float(bool(asked.counted) and not counted),
                "near": _share(weights.keys() & _list_terms_near(value, sentence), weights),
            }
            text = value.text + _take_counted_noun(asked.counted, value.after)
            candidates.append(Candidate(text, kind, sentence, features))
    return candidates


def _list_values(text: str, kind: Kind, entities: Sequence[Entity]) -> Iterator[tuple[Value, Kind]]:
    """Yield the values of a kind in a sentence, each with its exact kind.

    A value of the kind "moment" is a date or a duration.
    """
    if kind == "moment":
        yield from find_moments(text, entities)
        return
    for value in find_values(text, kind, entities):
        yield value, kind


def _take_counted_noun(counted: Set[str], after: str) -> str:
    """Return the words after a number up to the counted noun, or "" if the noun is missing.

    `counted` has the index terms of the noun, and `after` is the text after the number.

    >>> _take_counted_noun({"dai"}, " working days in all")
    ' working days'
    """
    for match in _FOLLOWING.finditer(after):
        if not counted.isdisjoint(list_index_terms(match[0])):
            return after[: match.end()]
    return ""


def choose_likeliest(
    candidates: Sequence[Candidate], held: float, weights: Mapping[str, float] = FITS
) -> Short | None:
    """Choose the candidate with the best score. Returns None if there are no candidates.

    The features of the choice include its lead over candidates with another value, and whether its
    value occurs more than once. `held` is the log odds that the documents contain an answer.
    `weights` are the weights of the features.
    """
    if not candidates:
        return None
    odds = [compute_log_odds(weights, candidate.features) for candidate in candidates]
    first = int(np.argmax(odds))
    best, answer_terms = (
        candidates[first],
        [tuple(list_index_terms(candidate.text)) for candidate in candidates],
    )
    others = [
        value
        for value, terms in zip(odds, answer_terms, strict=True)
        if terms != answer_terms[first]
    ]
    features = {
        "odds": min(max(odds[first], -3.0), 4.0),
        "lead": min(odds[first] - max(others), 4.0) if others else 0.0,
        "few": 1 / (1 + len(set(answer_terms))),
        "again": float(answer_terms.count(answer_terms[first]) > 1),
        "near": best.features["near"],
        "held": held,
    }
    is_counted = not best.features["uncounted"]
    return Short(best.text, best.sentence, features, is_counted, best.features["covered"])


def is_probably_right(short: Short) -> bool:
    """Return whether a short answer is likely enough to be shown."""
    return (
        short.features["odds"] >= _MIN_ODDS
        and compute_probability(RIGHT, short.features) >= _MIN_RIGHT
    )


def _list_terms_near(value: Value, sentence: Sentence) -> set[str]:
    """Return the index terms of the text around a value in its sentence."""
    start = max(value.start - _NEAR, 0)
    return set(list_index_terms(sentence.text[start : value.end + _NEAR]))


def _is_wanted(number: Value, asked: QuestionNeeds, counted: bool) -> bool:
    """Return whether a number may answer the question.

    If the question asks for a percentage or money, the number must have that unit. Otherwise it
    must be `counted` (followed by the noun that the question counts), or a kind of number that is
    often an answer.
    """
    if asked.unit == "share":
        return _SHARE.search(number.text + number.after) is not None
    if asked.unit == "money":
        return _MONEY.search(number.text + number.after) is not None
    if counted:
        return True
    return not _is_loose(number) and not (asked.counted and _NO_COUNT.search(number.text))


def _is_loose(number: Value) -> bool:
    """Return whether the number is rarely an answer: a small number, a year, or a time such as
    three days.
    """
    return number.text.lower() in _FEW or bool(_YEAR.fullmatch(number.text)) or number.counts_time


def _unite_terms(sentences: Sequence[Sentence]) -> dict[int, frozenset[str]]:
    covered: dict[int, frozenset[str]] = {}
    for sentence in sentences:
        covered[sentence.rank] = covered.get(sentence.rank, frozenset()) | sentence.terms
    return covered


def _find_best_neighbours(sentences: Sequence[Sentence]) -> dict[Sentence, float]:
    """Map each sentence to the larger of the cosines of the sentences beside it in its passage."""
    around = dict.fromkeys(sentences, 0.0)
    for before, after in pairwise(sentences):
        if before.rank == after.rank:
            around[before] = max(around[before], after.cosine)
            around[after] = max(around[after], before.cosine)
    return around


def _share(terms: Set[str], weights: Mapping[str, float]) -> float:
    return sum(weights[term] for term in terms) / max(sum(weights.values()), 1e-9)
