"""The live index: all that a query walks, of every kept version, in columns with lifetimes.

What a passage says (its vectors, questions, names, words) is content: an entry, added once and
never changed. When it is in force is in rows of `lives`, `documents`, `matches` and `link_ways`,
from `born` until before `died`, as in the store. So a version is a number, and a commit costs what
it changes: rows are appended, and the `died` of others is set. Whoever reads at an older version
minds neither.

A batch begins and ends rows as PENDING, which no version sees; `settle` gives them their version,
`forget_pending` takes them back.

Worked example. Version 1 has passages 7 and 8. Version 2 replaces 8 by 9: the life of 8 gets
died = 2, an entry and a life from 2 on are added for 9. At version 1 the lives of 7 and 8 are in
force, at version 2 those of 7 and 9.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hopsyncd.index.columns import (
    Column,
    ColumnTable,
    Floats,
    Integers,
    KeyNumbers,
    Postings,
    Segment,
)
from hopsyncd.index.vectors import Grow, VectorTable, in_memory
from store.records import content_id

DEAD = 2**31 - 1  # `died` of what is in force at the head
PENDING = DEAD - 1
NO_DATE = -(2**62)  # of a document that does not say when it was written

_PARTS = ("row", "incoming", "outgoing", "said", "mention", "heading")
_INTERVAL: dict[str, DTypeLike] = {"born": np.int32, "died": np.int32}
_QUESTION: dict[str, DTypeLike] = {
    "id": np.int64,
    "entry": np.int32,
    "row": np.int32,
    "first_keyword": np.int32,
    "keywords": np.int32,
}
TABLES: dict[str, dict[str, DTypeLike]] = {
    "entries": {
        "passage": np.int64,
        "set": np.int64,
        "number": np.int32,
        "words": np.int32,
        **{f"{end}_{part}": np.int32 for part in _PARTS for end in ("first", "end")},
    },
    "lives": {"entry": np.int32, **_INTERVAL},
    "incoming": _QUESTION,
    "outgoing": {**_QUESTION, "match": np.int32},
    "keyword": {"name": np.int32},
    "said": {"entry": np.int32, "name": np.int32, "about": np.bool_},
    "mention": {"entry": np.int32, "name": np.int32, "row": np.int32},
    "vector": {"end_mention": np.int32},
    "term": {"entry": np.int32, "count": np.int32},
    "heading": {"key": np.int64},
    "documents": {
        "id": np.int64,
        "source": np.int32,
        "home": np.int64,
        "modified": np.int64,
        "created": np.int64,
        **_INTERVAL,
    },
    "property": {"document": np.int32, "property": np.int32},
    "document_key": {"key": np.int64},
    "placements": {"document": np.int32, "number": np.int32, "ordinal": np.int32},
    "called": {"document": np.int32, "number": np.int32, "name": np.int32},
    "links": {
        "document": np.int32,
        "number": np.int32,
        "ordinal": np.int32,
        "place": np.int32,
        "first_try": np.int32,
        "end_try": np.int32,
    },
    "tries": {"key": np.int64, "heading": np.int64, "turn": np.int32},
    "link_ways": {"source": np.int32, "target": np.int32, "link": np.int32, **_INTERVAL},
    "matches": {"out": np.int32, "into": np.int32, "similarity": np.float64, **_INTERVAL},
}
POSTINGS = (
    "incoming_of_id",
    "outgoing_of_id",
    "incoming_having",
    "outgoing_having",
    "entries_of_number",
    "said_of_name",
    "mention_of_name",
    "term_rows",
    "placements_of_document",
    "called_of_number",
    "called_of_name",
    "documents_of_key",
    "keys_of_document",
    "documents_of_property",
    "links_of_key",
    "links_of_number",
    "links_of_document",
    "ways_from",
    "ways_to",
    "matches_from",
    "matches_to",
)


@lru_cache(1 << 14)
def name_key(name: str) -> int:
    """The content id of a name or a term."""
    return content_id(name)


@dataclass(frozen=True, slots=True, eq=False)
class StandIns:
    """What a version without some sources matches instead of what these hold, by rising `out`."""

    version: int
    out: Integers
    into: Integers
    similarity: Floats


class LiveIndex:
    """All columns. The one writer changes them; readers go by a `Snapshot`.

    entries: a passage with one question set; `number` counts distinct passages. What an entry has
    of a kind lies together, from `first_...` up to `end_...`. lives: when an entry is a vertex.
    incoming, outgoing: questions; `keyword` has their names, and `match` is the row of an outgoing
    question's match at the head, -1 without one. said: the distinct names of an entry's questions,
    `about` those of its topic. mention: the names of each sentence, with its vector's row, by which
    they rise; in `vector` is where those of each row end. term: how often an entry has a term.
    `hopsyncd.index.documents` says what documents have.
    """

    def __init__(self, dimensions: int, grow: Grow = in_memory) -> None:
        self.vectors = VectorTable(dimensions, grow)
        self.tables = {name: ColumnTable(**types) for name, types in TABLES.items()}
        self.postings = {name: Postings() for name in POSTINGS}
        self.names = KeyNumbers()
        self.spelled: list[str] = []  # each name
        self.passages = KeyNumbers()
        self.words: dict[str, None] = {}  # that any passage, visible or not, has had
        self.sources: list[str] = []
        self.paths: list[str] = []  # of each document
        self.shown: list[str] = []  # in place of each link
        self.properties: list[tuple[str, str]] = []  # that any document has, name and value
        self._property_of: dict[tuple[str, str], int] = {}
        self.entry_of: dict[int, int] = {}  # by question set
        self.life_of: dict[int, int] = {}  # by passage, at the head
        self.document_of: dict[int, int] = {}  # by row in the store, at the head
        self.stand_ins: Mapping[frozenset[str], StandIns] = {}  # by hidden sources; never changed
        self.version = 0  # as of which it is
        self._began: list[tuple[str, int, int]] = []
        self._ended: list[tuple[str, Integers]] = []

    def __getitem__(self, table: str) -> ColumnTable:
        return self.tables[table]

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which entries are vertices at the head, what is pending included."""
        lives = self["lives"]
        alive = np.zeros(len(self["entries"]), dtype=np.bool_)
        alive[lives["entry"][lives["died"] == DEAD]] = True
        return alive

    @property
    def is_worn(self) -> bool:
        """Whether most of it is of no use at the head; a gc may have freed it."""
        columns = self["entries"]
        rows = columns["end_row"] - columns["first_row"]
        living = int(rows[self.alive].sum())
        dead = len(self.vectors) - living
        died, of = self["documents"]["died"], self["placements"]["document"]
        placed = int(np.count_nonzero(died[of] == DEAD))
        return dead > max(1000, living) or len(of) - placed > max(1000, placed)

    def number_names(self, names: Sequence[str]) -> Integers:
        """The number of each name; new ones get the next."""
        numbers = self.names.add(np.array([name_key(name) for name in names], dtype=np.int64))
        for name, number in zip(names, numbers.tolist(), strict=True):
            if number == len(self.spelled):
                self.spelled.append(name)
        return numbers

    def number_properties(self, properties: Sequence[tuple[str, str]]) -> list[int]:
        """The number of each property; new ones get the next."""
        numbers = self._property_of
        for one in properties:
            if numbers.setdefault(one, len(self.properties)) == len(self.properties):
                self.properties.append(one)
        return [numbers[one] for one in properties]

    # Lives

    def entries_of(self, passages: Iterable[int]) -> Integers:
        """The entries of those of the passages that are vertices at the head."""
        lives = [self.life_of[passage] for passage in passages if passage in self.life_of]
        return self["lives"]["entry"][lives].astype(np.int64)

    def begin_lives(
        self, entries: Integers, born: Integers | int = PENDING, died: Integers | int = DEAD
    ) -> None:
        """The entries become vertices."""
        count = len(entries)
        dead = np.broadcast_to(died, count)
        first = self.begin("lives", entry=entries, born=np.broadcast_to(born, count), died=dead)
        passages = self["entries"]["passage"][entries]
        for at in np.flatnonzero(dead == DEAD).tolist():
            self.life_of[int(passages[at])] = first + at

    def end_lives(self, passages: Iterable[int], died: Integers | int = PENDING) -> None:
        """The passages, which are vertices, cease to be."""
        self.end("lives", _column([self.life_of.pop(passage) for passage in passages]), died)

    # Matches

    def begin_matches(
        self,
        out: Integers,
        into: Integers,
        similarity: Floats,
        born: Integers | int = PENDING,
        died: Integers | int = DEAD,
    ) -> None:
        """Outgoing questions get matches; what they had has ended."""
        count = len(out)
        dead = np.broadcast_to(died, count)
        first = self.begin(
            "matches",
            out=out,
            into=into,
            similarity=similarity,
            born=np.broadcast_to(born, count),
            died=dead,
        )
        rows = np.arange(first, first + count, dtype=np.int32)
        self.postings["matches_from"].add(self["outgoing"]["entry"][out], rows)
        self.postings["matches_to"].add(self["incoming"]["entry"][into], rows)
        alive = dead == DEAD
        self["outgoing"]["match"][out[alive]] = rows[alive]

    def end_matches(self, out: Integers, died: Integers | int = PENDING) -> None:
        """The matches of these outgoing questions, which all have one, end."""
        match = self["outgoing"]["match"]
        rows = match[out].astype(np.int64)
        match[out] = -1
        self.end("matches", rows, died)

    # Versions

    def begin(self, table: str, **columns: object) -> int:
        """Append rows with a lifetime; returns the first."""
        first = self[table].append(**columns)
        self._began.append((table, first, len(self[table])))
        return first

    def end(self, table: str, rows: Integers, died: Integers | int = PENDING) -> None:
        """Rows in force at the head end."""
        self[table]["died"][rows] = died
        self._ended.append((table, rows))

    def pending(self, table: str) -> tuple[Integers, Integers]:
        """The rows that the next version begins, and those that it ends."""
        none, rows = np.empty(0, dtype=np.int64), self[table]
        begun = np.concatenate(
            [none, *(np.arange(first, end) for of, first, end in self._began if of == table)]
        )
        ended = np.concatenate([none, *(some for of, some in self._ended if of == table)])
        return begun[rows["died"][begun] == DEAD], ended[rows["born"][ended] != PENDING]

    def settle(self, version: int) -> None:
        """What is pending holds from this version on."""
        for table, first, end in self._began:
            for column in ("born", "died"):
                part = self[table][column][first:end]
                part[part == PENDING] = version
        for table, rows in self._ended:
            died = self[table]["died"]
            died[rows[died[rows] == PENDING]] = version
        self._began.clear()
        self._ended.clear()
        self.version = version

    # As arrays

    def columns(self) -> dict[str, Column]:
        """All columns but those of the vectors."""
        found: dict[str, Column] = {
            "names": self.names.keys["key"],
            "passages": self.passages.keys["key"],
        }
        for table, rows in self.tables.items():
            found |= {f"{table}.{name}": column for name, column in rows.columns().items()}
        for name, postings in self.postings.items():
            found[f"{name}:keys"], found[f"{name}:positions"], _ = postings.segment()
        return found

    def take(self, columns: Mapping[str, Column], lengths: Mapping[str, int]) -> None:
        """Replace everything but vectors and texts by what `columns` gave, of a settled index.

        Each may have room behind its length.
        """
        self.names.take(columns["names"], lengths["names"])
        self.passages.take(columns["passages"], lengths["passages"])
        for table, types in TABLES.items():
            rooms = {name: columns[f"{table}.{name}"] for name in types}
            self[table].take(rooms, lengths[f"{table}.{next(iter(types))}"])
        for name, postings in self.postings.items():
            keys, positions = f"{name}:keys", f"{name}:positions"
            values = columns[positions][: lengths[positions]]
            postings.take(Segment.of(columns[keys][: lengths[keys]], values))
        entries, lives, documents = self["entries"], self["lives"], self["documents"]
        self.entry_of = {one: at for at, one in enumerate(entries["set"].tolist())}
        living = np.flatnonzero(lives["died"] == DEAD)
        passages = entries["passage"][lives["entry"][living]]
        self.life_of = dict(zip(passages.tolist(), living.tolist(), strict=True))
        there = np.flatnonzero(documents["died"] == DEAD)
        self.document_of = dict(zip(documents["id"][there].tolist(), there.tolist(), strict=True))
        self._property_of = {one: at for at, one in enumerate(self.properties)}


def _column(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)
