"""Where the walk begins: passages like the query, with its words, or with its names."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView
from hopsyncd.models.keywords import STOP_WORDS
from store.records import content_id

Floats = NDArray[np.float64]

_TEMPERATURE = 0.05  # of the softmax over cosines
_BM25_POWER = 3.0
_NAME_SHARE = 0.5  # of what names bring, twice, where cosines and words each have 1
_MENTION_SHARPNESS = 4.0
_MAX_NAME_WORDS = 8
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")
_WORD = re.compile(r"\w+")


def names_in(query: str, mentioned: Mapping[str, int]) -> list[str]:
    """The names known to the graph that the query uses: at each place the longest.

    A single word counts only if the query capitalises it or it has a digit.

    >>> names_in("Who played in Due South?", {"due south": 3, "south": 9, "played": 1})
    ['due south']
    """
    words = _WORD.findall(_POSSESSIVE.sub("", query.replace("\u2019", "'")))
    found: list[str] = []
    at = 0
    while at < len(words):
        for length in range(min(_MAX_NAME_WORDS, len(words) - at), 0, -1):
            part = words[at : at + length]
            name = " ".join(part).lower()
            marked = length > 1 or not part[0][0].islower()
            if marked and name in mentioned and name not in STOP_WORDS:
                found.append(name)
                at += length
                break
        else:
            at += 1
    return found


def seeds(view: GraphView, cosines: Floats, bm25: Floats, names: Sequence[str]) -> Floats:
    """(n,) mass that sums to 1, from up to four parts.

    By cosine (a softmax), by words (BM25 to the third power), by the topics that the query names,
    and by mentions of its names, in the sentences most like it; names count by their rarity.
    """
    dense = cosines[view.passage_row]
    words = (bm25 / bm25.max()) ** _BM25_POWER if bm25.any() else bm25
    parts = (
        (1.0, np.exp((dense - dense.max()) / _TEMPERATURE)),
        (1.0, words),
        (_NAME_SHARE, _by_topic(view, names)),
        (_NAME_SHARE, _by_mention(view, cosines, names)),
    )
    mass = np.zeros(len(view.passage))
    for weight, part in parts:
        if part.any():
            mass += weight * part / part.sum()
    total: Floats = mass / mass.sum()
    return total


def _rarity(view: GraphView, name: str) -> float:
    return float(np.log1p(len(view.passage) / view.mentioned[name]))


def _by_topic(view: GraphView, names: Sequence[str]) -> Floats:
    mass = np.zeros(len(view.passage))
    for name in names:
        about = view.about.get(name, ())
        if about:
            at = view.positions(np.array(about, dtype=np.int64))
            mass[at] += _rarity(view, name) / len(about)
    return mass


def _by_mention(view: GraphView, cosines: Floats, names: Sequence[str]) -> Floats:
    mentions = view.mentions
    mass = np.zeros(len(view.passage))
    for name in names:
        at = np.flatnonzero(mentions.name == content_id(name))
        if len(at):
            like = np.exp(_MENTION_SHARPNESS * cosines[mentions.row[at]])
            np.add.at(mass, mentions.passage[at], _rarity(view, name) * like / like.sum())
    return mass
