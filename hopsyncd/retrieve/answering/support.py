"""Decides whether the passages found contain an answer, and whether to show a short answer.

The probability of an answer has weights that were fitted on known answers. Its features are:

- Subject: the best sentences must be similar to the question, and more similar than the other
  passages found. The question's rare names must occur in the passages of these sentences. No name
  of the question may be absent from all passages of the collection, and hardly any other word. Only
  names in the sentence that asks count.
- Relation: if the question asks for a value such as a number or a date, the best sentences must
  contain one. If it asks for a number of things, a percentage or an amount of money, some sentence
  must contain a number of that kind.

If the question asks for a relative and the sentences state no kinship (`kinship`), the answer is
"not found" with any probability.

An answer may need two passages, so the sentences may be less similar to a long question, up to a
limit. The share of the question's words in the passages found is not a feature, because it does not
distinguish answerable from unanswerable questions.

In a small collection, less similarity is enough. The more unrelated sentences a collection has, the
more similar the best sentence is to the question by chance.
"""

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median

from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.models.language import EntityFinder
from hopsyncd.retrieve.answering.extractive import (
    QuestionNeeds,
    asks_for_several,
    find_asked_sentence,
    find_needs,
)
from hopsyncd.retrieve.answering.kinship import lacks_kinship
from hopsyncd.retrieve.answering.short_answer import (
    HELD,
    Candidate,
    Short,
    choose_likeliest,
    find_candidates,
    is_probably_right,
)
from hopsyncd.retrieve.sentences import Sentence
from hopsyncd.retrieve.strength import compute_log_odds, compute_probability
from hopsyncd.text.dates import MONTH_PATTERN, WRITTEN_DATE
from hopsyncd.text.question_language import recognise_language
from hopsyncd.text.words import list_index_terms

MIN_HELD = 0.5  # the probability below which the answer is "not found"
_LEAST_LIKE = 0.35  # the least cosine of an answer to a question of any length
_MANY = 1000  # In a collection with fewer passages, less similarity is enough.
_FEW = 100  # In a collection with at most 100 passages, unknown words do not count.
_USUALLY_UNKNOWN = 0.2  # the idf share of a question's words that documents often lack
_SMALL_COLLECTION_BONUS = 0.05  # This times log(_MANY / passages) is added to the cosine.
_SHORT, _LONG = 8, 14  # the most terms of a short question, and the fewest of a long question
_HOW_MANY = re.compile(r"\bhow many (\w+)", re.IGNORECASE)
_COUNTED = re.compile(r"[\d.,]+\s+([A-Za-z].*)")
# "The team that decides", "the vote of another group", "a word whose letters", "the first firm to".
_DESCRIBED = re.compile(
    r"\b(?:the|those|that|this)\s+(?:[\w'-]+\s+){1,3}(?:that|who|whom|which|where)\b"
    r"|\b(?:another|other)\s+\w+|\bwhose\b|\bthe (?:first|second|last|only) (?:\w+ ){1,2}to [a-z]"
    r"|\w,? (?:in|of|by|for|at|from|on) (?:which|whom) (?:(?:the|his|her|its|their) )?(?-i:[A-Z])",
    re.IGNORECASE,
)
# "The director of the film", "Ada's mother": a person other than the one named.
_RELATED = re.compile(
    r"\bthe (?:[a-z]\w+ )?[a-z]\w+ (?:of|for|behind|from) |[\w.)][\u2019']s [a-z]\w+"
)
_OF_DATES = frozenset({"year", "date", "day", "month", "century", "decade", "start", "end"})
_MEASURED = re.compile(
    r"\bhow (?:\w+ly )?(?:big|large|long|wide|high|tall|deep|far|heavy|fast)\b", re.IGNORECASE
)
_LEAST_COVERED = 0.2  # of the question's idf, in the sentence of a date and the headings above it
_FAR_BEHIND = 0.1  # the cosine of a sentence that is too far from the best sentence's
_ROUNDING = 1e-9
_RARE = 0.45  # least share of log(1 + passages), about the idf of a word in one passage
_BEGINS = re.compile(r"(?:\A|[?!:\n]|\w{4}\.)[\s\"'(\u201c\u2018\u00bf\u00a1]{0,5}\Z")
# Words for dates and sizes, which documents can write differently, such as 4 KB as 4,096 bytes.
_NO_NAME = re.compile(
    rf"{MONTH_PATTERN}|(?:1[5-9]|20)\d\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|\d*(?:[kmgt]i?b|[kmg]hz)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w[\w.+:'/-]*\w|\w")


def measure_support(
    question: str,
    asked: QuestionNeeds | None,
    values: Sequence[Candidate],
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    passages: int,
) -> dict[str, float]:
    """Compute the features that estimate whether the documents contain an answer.

    values: the values of the kind asked for. weights: the idf of the question's terms, including
    terms that no passage has. passages: the number of passages in the collection.
    """
    nearest: dict[int, float] = {}
    for sentence in sentences:
        nearest[sentence.rank] = max(nearest.get(sentence.rank, sentence.cosine), sentence.cosine)
    best = max(nearest.values(), default=0.0)
    names = _list_asked_names(question)
    rare = {
        term
        for name in names
        for term in list_index_terms(name)
        if weights.get(term, 0.0) > _RARE * math.log1p(passages)
    }
    found = [_find_terms(rare, sentence) for sentence in sentences]
    named = (
        {sentence.rank for sentence, terms in zip(sentences, found, strict=True) if terms}
        if rare
        else nearest.keys()
    )
    of_named = max((nearest[rank] for rank in named), default=0.0)
    has_all = rare.issubset(set().union(*found))
    is_unmet = asked is not None and _is_unmet(asked, values)
    return {
        "cosine": best + _SMALL_COLLECTION_BONUS * max(math.log(_MANY / max(passages, 1)), 0.0),
        "ahead": best - median(nearest.values() or (best,)),
        "unnamed": best - of_named,
        "unmet": float(is_unmet),
        "valueless": float(asked is not None and not is_unmet and _lacks_value(asked, values)),
        "lost": float(not has_all),
        "absent": float(_has_absent_name(question, names, weights, passages)),
        "unknown": _measure_unknown_words(weights, passages),
        "long": min(max((len(weights) - _SHORT) / (_LONG - _SHORT), 0.0), 1.0),
    }


def _lacks_value(asked: QuestionNeeds, values: Sequence[Candidate]) -> bool:
    """Return whether the question asks for a value such as a date, but the sentences that resemble
    the question contain none.
    """
    if asked.kind in ("name", "code"):
        return False
    return all(value.features["behind"] > _FAR_BEHIND for value in values)


def _find_terms(terms: AbstractSet[str], sentence: Sentence) -> set[str]:
    """Return the terms that a sentence has, also at the beginning of a longer word: `supervisor` in
    "supervisord".
    """
    if not terms:
        return set()
    text = f" {' '.join(_WORD.findall(sentence.text.lower()))}"
    return {term for term in terms if term in sentence.terms or f" {term}" in text}


def _has_absent_name(
    question: str, names: Sequence[str], weights: Mapping[str, float], passages: int
) -> bool:
    """Return whether one of a question's names is a name or a code that no passage has.

    Numbers do not count, because passages can write them differently. In German, all nouns look
    like names, so no name counts.
    """
    if recognise_language(question) == "de":
        return False
    absent = _list_absent_terms(weights, passages)
    words = (word for word in names if any(map(str.isalpha, word)))
    return any(term in absent for word in words for term in list_index_terms(word))


def _measure_unknown_words(weights: Mapping[str, float], passages: int) -> float:
    """Return the idf share of the question's words that no passage has, as far as it is unusual.

    A small collection lacks many words by chance, so its share counts less.
    """
    absent = _list_absent_terms(weights, passages)
    share = sum(weights[term] for term in absent) / max(sum(weights.values()), 1e-9)
    size = math.log(max(passages, 1) / _FEW) / math.log(_MANY / _FEW)
    return max(share - _USUALLY_UNKNOWN, 0.0) * min(max(size, 0.0), 1.0)


def _list_absent_terms(weights: Mapping[str, float], passages: int) -> set[str]:
    """Return the terms of the question that no passage has."""
    idf_of_absent = math.log1p((passages + 0.5) / 0.5)
    return {term for term, idf in weights.items() if idf >= idf_of_absent - _ROUNDING}


def _is_unmet(asked: QuestionNeeds, values: Sequence[Candidate]) -> bool:
    """Return whether the question asks for a count, a percentage or money, but no found number
    fits.
    """
    if asked.counted:
        return all(value.features["uncounted"] for value in values)
    return asked.unit is not None and not values


def _list_asked_names(question: str) -> list[str]:
    """List the names in the sentence that asks, without dates and units.

    The sentences before it describe the situation, and the documents may describe it otherwise.
    Documents can also write a date or a size differently.

    >>> _list_asked_names("A Portuguese client wrote in May. Where did Priya meet him in 2024?")
    ['Priya']
    """
    asked = find_asked_sentence(WRITTEN_DATE.sub(" ", question))
    return [name for name in _list_names(asked) if not _NO_NAME.fullmatch(name)]


def _list_names(question: str) -> list[str]:
    """List the words in a question that look like names.

    A word looks like a name if it is capitalised and does not begin a sentence, or if it has a
    digit or a capital after its first letter.

    >>> _list_names("Where was Dr. Lovelace born? Really? In B12")
    ['Dr', 'Lovelace', 'B12']
    """
    return [
        word[0]
        for word in _WORD.finditer(question)
        if (
            word[0][0].isupper()
            and not _BEGINS.search(question, max(word.start() - 12, 0), word.start())
        )
        or any(sign.isupper() or sign.isdigit() for sign in word[0][1:])
    ]


def is_described(question: str) -> bool:
    """Return whether a question describes its subject without naming it.

    Another document must then name the subject. A value from the document that contains the
    description is often wrong.

    >>> is_described("How large is the team that decides about releases?")
    True
    >>> is_described("How large is the release team?")
    False
    """
    return _DESCRIBED.search(question) is not None


_SPAN = re.compile(
    r"\b(?:seconds|minutes|hours|days|weeks|months|years)\b"
    r"|\b(?:one|an?) (?:minute|hour|day|week|month|year)\b",
    re.IGNORECASE,
)


def is_of_related(question: str) -> bool:
    """Return whether a question asks about something that is only related to the named subject.

    If such a question asks for a date, the search often finds the date of the named subject, which
    is wrong.

    >>> is_of_related("When was the director of Uncle Silas born?")
    True
    >>> is_of_related("When did the Battle of Hastings begin?")
    False
    """
    return any(
        not _OF_DATES.intersection(match[0].lower().split())
        for match in _RELATED.finditer(question)
    )


def is_shown(question: str, asked: QuestionNeeds, short: Short) -> bool:
    """Return whether a likely value may be shown as the short answer.

    No value is shown if the question only describes its subject, or asks for several values. A
    number must count what the question counts, and have a unit if the question asks for a size. A
    date must contain a number or a length of time, and its sentence must have enough words of the
    question. No date is shown for something that is only related to the named subject.
    """
    if is_described(question) or asks_for_several(question):
        return False
    if counts_other_things(question, short.text):
        return False
    if asked.kind == "number":
        has_unit = any(map(str.isalpha, short.text)) or "%" in short.text
        if asked.counted and not short.is_counted:
            return False
        return has_unit or not _MEASURED.search(question)
    if asked.kind in ("date", "moment"):
        if short.covered < _LEAST_COVERED:
            return False
        is_whole = any(map(str.isdigit, short.text)) or _SPAN.search(short.text)
        return bool(is_whole) and not is_of_related(question)
    return True


def counts_other_things(question: str, text: str) -> bool:
    """Return whether the question asks for a number of things, and `text` counts other things.

    >>> counts_other_things("How many bytes long is the header?", "1000 pages long")
    True
    >>> counts_other_things("How many bytes long is the header?", "32 bytes")
    False
    """
    asked, counted = _HOW_MANY.search(question), _COUNTED.match(text)
    if not asked or not counted or asked[1].lower() in STOP_WORDS:
        return False
    return not set(list_index_terms(asked[1])) & set(list_index_terms(counted[1]))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The decision whether the documents contain an answer, and the short answer.

    short: the short answer, or None if no value is likely enough. sentences: the whole answer, such
    as the sentence with the short answer; empty if the sentences are chosen later. with_value: the
    sentences to prefer, such as those with a value of the kind asked for. leading: the sentences
    from which the first sentence is chosen; empty if any sentence may be first.
    """

    is_found: bool
    short: str | None = None
    sentences: tuple[Sentence, ...] = ()
    with_value: frozenset[Sentence] = frozenset()
    leading: frozenset[Sentence] = frozenset()


def judge(
    question: str,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    passages: int,
    language: EntityFinder,
) -> Judgement:
    """Decide whether the sentences found contain an answer, and choose the short answer.

    weights: the idf of the question's terms. passages: the number of passages in the collection.
    """
    asked = find_needs(question)
    values = find_candidates(question, asked, sentences, weights, language) if asked else []
    features = measure_support(question, asked, values, sentences, weights, passages)
    is_likely = (
        features["cosine"] >= _LEAST_LIKE and compute_probability(HELD, features) >= MIN_HELD
    )
    if not sentences or not is_likely or lacks_kinship(question, sentences):
        return Judgement(False)
    with_value = frozenset(value.sentence for value in values if not value.features["uncounted"])
    short = choose_likeliest(values, compute_log_odds(HELD, features))
    if asked and short and is_probably_right(short) and is_shown(question, asked, short):
        return Judgement(True, short.text, (short.sentence,), with_value)
    return Judgement(True, with_value=with_value)
