"""Where the walk begins: passages like the query, with its words, or about its names."""

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.view import GraphView
from hopsyncd.text.keywords import STOP_WORDS

Floats = NDArray[np.float64]

_TEMPERATURE = 0.05  # of the softmax over cosines
_BM25_POWER = 3.0
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


def seeds(view: GraphView, cosines: Floats, bm25: Floats, names: list[str]) -> Floats:
    """(n,) mass that sums to 1: a third each by cosine, by words, and by the names of topics."""
    dense = cosines[view.passage_row]
    parts = [np.exp((dense - dense.max()) / _TEMPERATURE)]
    if bm25.any():
        parts.append((bm25 / bm25.max()) ** _BM25_POWER)
    topics = np.zeros(len(view.passage))
    for name in names:
        about = view.about.get(name, ())
        if about:
            at = view.positions(np.array(about, dtype=np.int64))
            topics[at] += np.log1p(len(view.passage) / view.mentioned[name]) / len(about)
    parts.append(topics)
    mass = np.zeros(len(view.passage))
    for part in parts:
        if part.sum() > 0:
            mass += part / part.sum()
    total: Floats = mass / mass.sum()
    return total
