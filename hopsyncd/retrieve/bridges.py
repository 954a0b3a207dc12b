"""Finds bridges: two documents that a name connects.

"Ada Lovelace → Lord Byron → Missolonghi" is a bridge: a document about Ada mentions Lord Byron, and
a document about Lord Byron mentions Missolonghi. A question about both ends needs both documents.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import Integers
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.results import find_whole_words
from hopsyncd.text.dates import MONTHS
from store.content import read_passages
from store.contract import Connection
from store.records import Passage, PassageId

_CANDIDATES = 400  # names that are tried, the rarest first
_MOST_MENTIONS = 12  # passages that mention the name in the middle
_MOST_END_MENTIONS = 8
_TRIED_STARTS, _TRIED_ENDS = 6, 12
_LONGEST_WORDS = 4
_LEAST_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Bridge:
    """Two names and a third name that connects them, all written as in the passages.

    passages: the passage that mentions the first and the middle name, and the passage that mentions
    the middle and the last name.
    """

    start: str
    middle: str
    end: str
    passages: tuple[PassageId, PassageId]


def find_bridges(connection: Connection, snapshot: Snapshot, limit: int) -> list[Bridge]:
    """Find up to `limit` bridges over the rarest `_CANDIDATES` names. No name occurs in two
    bridges."""
    statistics = snapshot.statistics
    counts = statistics.mention_counts
    is_middle = (statistics.as_document_name > 0) & statistics.joins_documents
    numbers = np.flatnonzero(is_middle & (counts > 1) & (counts <= _MOST_MENTIONS))
    spelled = snapshot.index.name_texts
    order = sorted(numbers.tolist(), key=lambda number: (int(counts[number]), spelled[number]))
    bridges, used = list[Bridge](), set[str]()
    for name in order[:_CANDIDATES]:
        for bridge in _find_bridges_over(connection, snapshot, name):
            ends = {bridge.start.casefold(), bridge.middle.casefold(), bridge.end.casefold()}
            if not ends & used:
                bridges.append(bridge)
                used |= ends
                break
        if len(bridges) == limit:
            break
    return bridges


def _find_bridges_over(connection: Connection, snapshot: Snapshot, name: int) -> Iterator[Bridge]:
    """Find the bridges with this name in the middle."""
    middles = snapshot.find_by_topic(name)
    about = set(snapshot.get_document_keys(middles).tolist())
    mentions = np.unique(snapshot.find_mentions(np.array([name])).passage_row)
    keys = snapshot.get_document_keys(mentions).tolist()
    starts = [row for row, key in zip(mentions.tolist(), keys, strict=True) if key not in about]
    if not starts:
        return
    starts = starts[:_TRIED_STARTS]
    rows = [*starts, *middles.tolist()]
    ids = {row: PassageId(int(snapshot.passage_ids[row])) for row in rows}
    passages = read_passages(connection, list(ids.values()))
    ends = _find_end_names(snapshot, middles, name)
    for start in starts:
        for middle in middles.tolist():
            if ids[start] in passages and ids[middle] in passages:
                yield from _name_bridges(
                    snapshot, name, (ids[start], ids[middle]), passages, ends.get(middle, [])
                )


def _find_end_names(snapshot: Snapshot, middles: Integers, name: int) -> Mapping[int, list[int]]:
    """Map each of the passage rows `middles` to its rare names, except `name`.

    Names of documents come first.
    """
    statistics = snapshot.statistics
    positions, names = snapshot.list_names(middles)
    counts = statistics.mention_counts[names]
    kept = (names != name) & (counts <= _MOST_END_MENTIONS)
    found = dict[int, list[int]]()
    joins, titles = (
        statistics.joins_documents[names[kept]],
        statistics.as_document_name[names[kept]],
    )
    best = np.lexsort((names[kept], ~joins, -titles))
    for position, number in zip(positions[kept][best], names[kept][best], strict=True):
        found.setdefault(int(middles[position]), []).append(int(number))
    return found


def _name_bridges(
    snapshot: Snapshot,
    name: int,
    ids: tuple[PassageId, PassageId],
    passages: Mapping[PassageId, Passage],
    ends: list[int],
) -> Iterator[Bridge]:
    """Yield the bridges from the title of the first passage to a name in the second passage.

    `name` is the middle name. `ends` are the candidates for the last name, best first. All names
    are written as in the passages.
    """
    start, middle = passages[ids[0]], passages[ids[1]]
    first = start.heading[0] if start.heading else ""
    joint = _find_written(start.text, snapshot.index.name_texts[name])
    if not (_is_name(first) and joint and not _overlap(first, joint)):
        return
    whole = " ".join((*start.heading, start.text))
    for number in ends[:_TRIED_ENDS]:
        text = snapshot.index.name_texts[number]
        last = _find_written(middle.text, text)
        if last and not find_whole_words(whole, text) and not _overlap(last, first, joint):
            yield Bridge(first, joint, last, ids)


def _find_written(text: str, name: str) -> str:
    """Return the name as written in the text, or "" if the text does not write it like a name."""
    written = find_whole_words(text, name) or ""
    return written if _is_name(written) else ""


def _is_name(text: str) -> bool:
    """Return whether the text consists of a few words, with a capital at the beginning of the first
    and the last word, and is not a month.

    >>> [_is_name(text) for text in ("Lord Byron", "the sea", "A1", "FAQ", "Note", "August")]
    [True, False, False, False, True, False]
    """
    words = text.split()
    return (
        0 < len(words) <= _LONGEST_WORDS
        and len(text) >= _LEAST_CHARACTERS
        and words[0][0].isupper()
        and words[-1][0].isupper()
        and text.replace(" ", "").replace("-", "").isalpha()
        and text.casefold() not in MONTHS
    )


def _overlap(text: str, *others: str) -> bool:
    """Return whether `text` shares a word with any of the `others`."""
    words = {word.casefold() for word in text.split()}
    return any(words & {word.casefold() for word in other.split()} for other in others)
