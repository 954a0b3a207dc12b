"""Draws queries with an abbreviation whose passage has the long form, and the reverse.

The rules and the seed are fixed, so the same passages always give the same queries. A passage
defines a pair such as "Marvel Cinematic Universe (MCU)". Another passage has only one of the two
forms. The query has the other form, and two words of the sentence with the name that a few other
passages also have.
"""

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.text.abbreviations import Pair, find_pairs
from hopsyncd.text.words import list_index_terms, map_texts_to_terms

_SEED = 20261126
_MOST_OF_PAIR = 2  # queries for each direction of a pair
_LEAST_PASSAGES, _MOST_PASSAGES = 3, 40  # that have a word of a query
_WORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A query, the form of the name in it, and the only passage that answers it."""

    query: str
    has_short: bool
    gold: str


def draw(passages: Mapping[str, tuple[Sequence[str], str]]) -> list[DrawnQuery]:
    """Draw the queries for passages; the keys are ids, the values headings and text."""
    chance = random.Random(_SEED)
    texts = {
        id_: " ".join(" ".join([*heads, text]).split()) for id_, (heads, text) in passages.items()
    }
    terms = {id_: frozenset(list_index_terms(text)) for id_, text in texts.items()}
    df: dict[str, int] = defaultdict(int)
    for one in terms.values():
        for term in one:
            df[term] += 1
    pairs = {
        pair
        for heads, text in passages.values()
        for pair in find_pairs(heads, text)
        if not text.startswith("alias")
    }
    queries: dict[str, DrawnQuery] = {}
    for pair in sorted(pairs):
        for has_short in (True, False):
            drawn = _draw_of_pair(pair, texts, terms, df, chance, has_short=has_short)
            queries.update((one.query, one) for one in drawn)
    return [*queries.values()]


def _draw_of_pair(
    pair: Pair,
    texts: Mapping[str, str],
    terms: Mapping[str, frozenset[str]],
    df: Mapping[str, int],
    chance: random.Random,
    *,
    has_short: bool,
) -> list[DrawnQuery]:
    short = re.compile(rf"(?<!\w){re.escape(pair.short)}s?(?!\w)")
    long = re.compile(rf"(?<!\w){re.escape(pair.long)}s?(?!\w)", re.IGNORECASE)
    asked, wanted = (pair.short, long) if has_short else (pair.long, short)
    other = short if has_short else long
    ids = [id_ for id_, text in texts.items() if wanted.search(text) and not other.search(text)]
    chance.shuffle(ids)
    drawn = []
    for id_ in ids:
        found = [one for one in _SENTENCE.split(texts[id_]) if wanted.search(one)]
        if not found:
            continue
        sentence = wanted.sub(" ", found[0])
        known = map_texts_to_terms({*_WORD.findall(sentence)})
        words = [
            word
            for word, own in sorted(known.items())
            if word.lower() not in STOP_WORDS
            and not set(own) & set(list_index_terms(f"{pair.short} {pair.long}"))
            and all(_LEAST_PASSAGES <= df[term] <= _MOST_PASSAGES for term in own)
        ]
        if len(words) < 2:
            continue
        chosen = chance.sample(words, 2)
        stems = set(list_index_terms(" ".join(chosen)))
        gold = [
            one
            for one, text in texts.items()
            if stems <= terms[one] and (wanted.search(text) or other.search(text))
        ]
        if gold == [id_]:
            drawn.append(DrawnQuery(f"{asked} {' '.join(chosen)}", has_short, id_))
        if len(drawn) == _MOST_OF_PAIR:
            break
    return drawn
