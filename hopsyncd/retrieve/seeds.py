"""Where the walk begins: passages like the query, with its words, or with its names.

Cosines and words are added before the softmax, so that a passage which both favour counts for more
than two that one favours each. Both are on scales that no collection changes: a cosine, and BM25 as
a share of what a passage with all words of the query could reach.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView
from hopsyncd.models.keywords import STOP_WORDS
from store.records import content_id
from store.words import index_terms

Floats = NDArray[np.float64]

_OF_LIKENESS = 15.0
_OF_WORDS = 25.0
_OF_TOPIC = 2.0
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


def worths(names: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    """What share of the query each name is: of the idf of its terms, `weights`.

    >>> worths(["due south"], {"play": 1.0, "due": 1.0, "south": 2.0})
    {'due south': 0.75}
    """
    total = sum(weights.values())
    return {
        name: sum(weights.get(term, 0.0) for term in index_terms(name)) / total for name in names
    }


def seeds(view: GraphView, cosines: Floats, words: Floats, worth: Mapping[str, float]) -> Floats:
    """(n,) mass that sums to 1.

    A softmax over the best cosine of each passage's rows and its `words`, (n,) of 0 to 1; and for
    each name of the query, by the square of its worth, mass on the passages that it is the topic
    of, and half as much on those that mention it, in the sentences most like the query. A name that
    is most of the query is what it is about; a small part of it may only be a word of it.
    """
    like = _OF_LIKENESS * view.spans.best(cosines) + _OF_WORDS * words
    mass = np.exp(like - like.max())
    mass /= mass.sum()
    for name, share in worth.items():
        led = _OF_TOPIC * _by_topic(view, name) + _by_mention(view, cosines, name)
        mass += share**2 * led
    total: Floats = mass / mass.sum()
    return total


def _by_topic(view: GraphView, name: str) -> Floats:
    mass = np.zeros(len(view.passage))
    about = view.about.get(name, ())
    if about:
        mass[view.positions(np.array(about, dtype=np.int64))] = 1 / len(about)
    return mass


def _by_mention(view: GraphView, cosines: Floats, name: str) -> Floats:
    mentions = view.mentions
    at = np.flatnonzero(mentions.name == content_id(name))
    like = np.exp(_MENTION_SHARPNESS * cosines[mentions.row[at]])
    mass = np.bincount(mentions.passage[at], like / like.sum(), len(view.passage))
    return mass.astype(np.float64, copy=False)
