"""A comparison of two things that the question names: yes, no or one of them, from both passages.

Each is the topic of a passage that was found, and `and` or `or` stands between them. Three sorts
are answered, and nothing else is guessed at:

- `Are A and B both painters?`: yes if each passage has all that is asked, else no;
- `Are A and B in the same province?`: by the names beside the word, `Essex province`;
- `Which is older, A or B?`: by the first year in the sentence of each that has most of what is
  asked; and `Which is Dutch, A or B?` where one of the passages alone has all that is asked.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from hopsyncd.models.keywords import normalise
from hopsyncd.retrieve.answering.extractive import Sentence, function_terms
from hopsyncd.text.words import index_terms

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_YES_OR_NO = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had)\b", re.IGNORECASE)
_SAME = re.compile(r"\bsame (\w+)", re.IGNORECASE)
_EARLY = re.compile(r"\b(?:first|earlie[rs]t?|olde[rs]t?|before)\b", re.IGNORECASE)
_LATE = re.compile(r"\b(?:later|latest|newe[rs]t?|younge[rs]t?|recently)\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\w.,-])(?:1\d|20)\d\d(?![\w%]|[.,]\d)")
_ANY = re.compile("")
# What tells of the comparison, not of the things.
_OF_COMPARING = frozenset(
    index_terms(
        "both same either also kind type sort first earlier earliest older oldest before later"
        " latest newer newest younger youngest recently member located situated"
    )
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of it, and the sentences that decide it, one of each thing."""

    text: str
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class _Thing:
    """One of the two: its name as the question spells it, and the sentences of its passage."""

    name: str
    sentences: Sequence[Sentence]

    def terms(self) -> frozenset[str]:
        return frozenset[str]().union(*(index_terms(one.text) for one in self.sentences))

    def telling(self, asked: Set[str], pattern: re.Pattern[str] = _ANY) -> Sentence | None:
        """Of the sentences with the pattern, the first with most of what is asked."""
        some = [one for one in self.sentences if pattern.search(one.text)]
        return max(some, key=lambda one: len(asked & {*index_terms(one.text)}), default=None)


def compared(question: str, sentences: Sequence[Sentence]) -> Decision | None:
    """Compare the two things of the question; None where it names no two, or nothing decides."""
    things = _things(question, sentences)
    if things is None:
        return None
    first, second, between = things
    named = index_terms(f"{first.name} {second.name}")
    asked = frozenset(index_terms(question)) - function_terms() - _OF_COMPARING - {*named}
    if "or" in between:
        return _either(question, asked, first, second)
    if "and" in between and _YES_OR_NO.match(_SENTENCE.split(question)[-1]):
        return _both(question, asked, first, second)
    return None


def _things(
    question: str, sentences: Sequence[Sentence]
) -> tuple[_Thing, _Thing, list[str]] | None:
    """The two topics that the question names, and the words between them."""
    text = f" {normalise(question)} "
    of_topic: dict[str, list[Sentence]] = {}
    for one in sentences:
        for topic in one.topics:
            if f" {topic} " in text:
                of_topic.setdefault(topic, []).append(one)
    parts = {
        one for one in of_topic for other in of_topic if one != other and f" {one} " in f" {other} "
    }
    named = sorted(of_topic.keys() - parts, key=lambda topic: text.index(f" {topic} "))
    if len(named) != 2:
        return None
    ranks = [min(one.rank for one in of_topic[topic]) for topic in named]
    if ranks[0] == ranks[1]:
        return None
    first, second = (
        _Thing(_spelled(question, topic), [one for one in of_topic[topic] if one.rank == rank])
        for topic, rank in zip(named, ranks, strict=True)
    )
    after = text.index(f" {named[0]} ") + len(named[0])
    return first, second, text[after : text.index(f" {named[1]} ")].split()


def _spelled(question: str, topic: str) -> str:
    words = r"\W+".join(map(re.escape, topic.split()))
    match = re.search(rf"\b{words}\b", question, re.IGNORECASE)
    return match[0] if match else topic


def _both(question: str, asked: Set[str], *things: _Thing) -> Decision | None:
    same = _SAME.search(question)
    if same:
        word = re.escape(same[1])
        named = re.compile(rf"((?:[A-Z][\w'-]+ )+){word}\b|\b{word} of ((?:[A-Z][\w'-]+ ?)+)")
        telling = [one.telling(asked, named) for one in things]
        names = [_names(one, named) for one in telling]
        return _decided("yes" if names[0] & names[1] else "no", telling) if all(names) else None
    if not asked or "both" not in question.lower().split():
        return None
    holds = all(asked <= one.terms() for one in things)
    return _decided("yes" if holds else "no", [one.telling(asked) for one in things])


def _names(sentence: Sentence | None, named: re.Pattern[str]) -> set[str]:
    found = named.finditer(sentence.text) if sentence else ()
    return {normalise(match[1] or match[2]) for match in found}


def _either(question: str, asked: Set[str], *things: _Thing) -> Decision | None:
    late = _LATE.search(question) is not None
    if late or _EARLY.search(question):
        telling = [one.telling(asked, _YEAR) for one in things]
        years = [int(found[0]) for one in telling if one and (found := _YEAR.search(one.text))]
        if len({*years}) != 2:
            return None
        return _decided(things[(years[0] > years[1]) is not late].name, telling)
    having = [one for one in things if asked and asked <= one.terms()]
    if len(having) != 1:
        return None
    return _decided(having[0].name, [one.telling(asked) for one in things])


def _decided(text: str, telling: Sequence[Sentence | None]) -> Decision:
    return Decision(text, tuple(one for one in telling if one))
