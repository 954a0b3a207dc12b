"""A two-hop question from two joined passages, by rule: a stand-in for one that somebody asks.

The name that joins them is taken out of both. A sentence of the first passage that mentions it
leads to the second, which is about it (it is a heading, or of two words or more and begins the
sentence), and what a sentence of the second says after it is asked for:

    <first passage's title>: <its sentence, the name replaced by "this one">. This one <the words
    between the name and the next name, place, date or number in the second's sentence> <which
    person, place, date or number, or what>?

Worked example: "The Bronze Door is a film that Mira Kaltenbrunn directed." and "Mira Kaltenbrunn
grew up in the village of Ostrava Vale." give "The Bronze Door is a film that this one directed.
This one grew up in the village of which place?", answer "Ostrava Vale".

No question is made if it would name the second passage's title or if the first passage has the
answer: it needs both. Names with a digit lead nowhere: a year joins what it happens to be in.
"""

import re
from collections.abc import Iterator, Sequence

from hopsyncd.evaluation.data import GoldQuestion
from hopsyncd.evaluation.pairs import Pair
from hopsyncd.text.keywords import Mention, normalise
from hopsyncd.text.language import Language
from hopsyncd.text.questions import sentence_spans
from store.records import Passage

MAX_CHARACTERS = 400
_MAX_BETWEEN = 80
_STANDING_IN = "this one"
_RELATION = re.compile(r"(?!and\b|or\b)[^\W\d_A-Z]+\b")  # it goes on in lower case
_EDGES = " ,;:()-\u2013\u2014"


def ruled(pair: Pair, language: Language) -> GoldQuestion | None:
    """The first question that the rule makes of the pair."""
    topics = {normalise(heading) for heading in pair.target.heading}
    names = [name for name in sorted(pair.names) if not re.search(r"\d", name)]
    names = [name for name in names if name in topics or " " in name]
    if not names:
        return None
    source, target = (language.mentions(one.text) for one in (pair.source, pair.target))
    for name in names:
        for lead in _leads(pair.source, source, name):
            for relation, answer in _asked(pair, target, name, language):
                question = f"{lead}. {_STANDING_IN.capitalize()} {relation}?"
                if len(question) <= MAX_CHARACTERS and not gives_away(question, pair.target, name):
                    ids = pair.ids
                    return GoldQuestion("-".join(ids), question, (answer,), frozenset(ids))
    return None


def gives_away(question: str, target: Passage, name: str = "") -> bool:
    """Whether the question has the target's title, the name, or a long word of either."""
    words = set(normalise(question).split())
    hidden = {normalise(name), *(normalise(heading) for heading in target.heading[-1:])}
    for one in filter(None, hidden):
        parts = one.split()
        if words.issuperset(parts) or any(len(part) > 3 and part in words for part in parts):
            return True
    return False


def _leads(passage: Passage, found: Sequence[Mention], name: str) -> Iterator[str]:
    """Sentences that mention the name, without it, the title before those that lack it."""
    title = passage.heading[-1] if passage.heading else ""
    for start, end in sentence_spans(passage.text):
        at = [
            (m.start, m.end) for m in found if m.keyword == name and start <= m.start < m.end <= end
        ]
        if not at:
            continue
        text = passage.text[start:end]
        for first, last in sorted(at, reverse=True):
            text = text[: first - start] + _STANDING_IN + text[last - start :]
        about = title if title and normalise(title) not in normalise(text) else ""
        yield (f"{about}: {text}" if about else text).rstrip(" .")


def _asked(
    pair: Pair, found: Sequence[Mention], name: str, language: Language
) -> Iterator[tuple[str, str]]:
    """What the target's sentences say after the name, as (words with a question word, answer)."""
    text = pair.target.text
    known = f" {normalise(pair.source.text)} "
    is_topic = name in map(normalise, pair.target.heading)
    for start, end in sentence_spans(text):
        for mention in found:
            if mention.keyword != name or not start <= mention.start < end:
                continue
            if not is_topic and (mention.start > start or " " not in name):
                continue
            for first, last, which in _things(text, start, end, found, language):
                between = text[mention.end : first].strip(_EDGES)
                new = f" {normalise(text[first:last])} " not in known
                if first > mention.end and new and between:
                    if _RELATION.match(between) and len(between) <= _MAX_BETWEEN:
                        yield f"{between} {which}", text[first:last]
                    break


def _things(
    text: str, start: int, end: int, found: Sequence[Mention], language: Language
) -> list[tuple[int, int, str]]:
    """What can be asked for in a sentence, in order: entities of a known kind, then other names."""
    entities = [
        (start + one.start, start + one.end, f"which {one.kind}")
        for one in language.entities(text[start:end])
    ]
    taken = {first for first, _, _ in entities}
    names = [
        (one.start, one.end, "what")
        for one in found
        if start <= one.start < end and one.start not in taken
    ]
    return sorted([*entities, *names])
