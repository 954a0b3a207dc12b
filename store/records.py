"""Defines the records that all packages share, and makes arithmetic on vectors exact.

Vectors are rounded to a grid: a unit vector v is stored as the integers round(v * GRID). For up to
4096 dimensions d, the dot product of two such vectors is below (GRID + sqrt(d) / 2) ** 2 < 2 ** 24.
So a float32 matrix product is exact, whatever the order of additions, the batch size or the number
of threads. An incremental result therefore equals a rebuilt result bit for bit. The rounding
changes a cosine by about 1e-5.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NewType

import numpy as np
from numpy.typing import NDArray

ALIVE = 2**63 - 1  # the value of `died` while a row is in force at the head
GRID = 4000
REBUILD = "Run `hopsyncd rebuild` to recompute derived data from the stored content"
RESTORE = (
    "Restore a backup. Without a backup, stop the daemon, move the database away and start the"
    " daemon, which indexes the files again"
)

PassageId = NewType("PassageId", int)
QuestionId = NewType("QuestionId", int)
SetId = NewType("SetId", int)
Vectors = NDArray[np.int16]


# Kept, because json.dumps would create an encoder for each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def compact_json(value: object) -> bytes:
    """Encode a value as compact JSON. Stored digests are computed over this encoding, so it must
    not change."""
    return _ENCODER.encode(value).encode()


def compute_content_id(*parts: object) -> int:
    """Return the upper 63 bits of the blake2b-64 digest of the parts' JSON.

    >>> compute_content_id(["Rome"], "A city.") == compute_content_id(["Rome"], "A city.")
    True
    """
    # Like compact_json(parts), but the encoder has a fast path for a string.
    text = f"[{','.join(map(_ENCODER.encode, parts))}]"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def hash_content(data: bytes) -> bytes:
    """Return the blake2b-128 digest of a document's bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def to_grid(vectors: NDArray[np.floating]) -> Vectors:
    """Normalise the rows of an (m, d) array and round them to the grid.

    A row that is zero or not finite becomes zero, whose similarity to every vector is 0.
    """
    wide = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    unit = np.divide(wide, norms, out=np.zeros_like(wide), where=usable)
    grid: Vectors = np.rint(unit * GRID).astype(np.int16)
    return grid


class Direction(IntEnum):
    """Whether a question is incoming (the passage answers it) or outgoing (the passage
    raises it)."""

    INCOMING = 0
    OUTGOING = 1


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document's text, under its heading path (outermost first). It is a vertex of the
    graph."""

    heading: tuple[str, ...]
    text: str

    @property
    def id(self) -> PassageId:
        """The content id of the heading path and the text."""
        return PassageId(compute_content_id(list(self.heading), self.text))


@dataclass(frozen=True, slots=True)
class Question:
    """A triplet (q, k, v) of a question's text, keywords and vector. `vector_row` is the row of v
    in the vectors of its question set."""

    id: QuestionId
    direction: Direction
    text: str
    keywords: frozenset[str]
    vector_row: int


@dataclass(frozen=True, slots=True, eq=False)
class QuestionSet:
    """The questions of one passage under one GenerationConfig.

    `vectors` is an (m, d) int16 array on the grid: m vectors with d dimensions. Row 0 is the vector
    of the whole passage. A set is `provisional` if an LLM has not yet generated its questions,
    although the settings ask for an LLM.
    """

    id: SetId
    passage: PassageId
    questions: tuple[Question, ...]
    vectors: Vectors
    provisional: bool = False


def compute_set_id(passage: PassageId, generation: str, *, provisional: bool = False) -> SetId:
    """Return the content id of a passage's question set under the generation settings with this
    name."""
    more = ("provisional",) if provisional else ()
    return SetId(compute_content_id(passage, generation, *more))


def compute_question_id(in_set: SetId, direction: Direction, ordinal: int) -> QuestionId:
    """Return the content id of the `ordinal`-th question of its direction in the set."""
    return QuestionId(compute_content_id(in_set, int(direction), ordinal))


@dataclass(frozen=True, slots=True)
class Match:
    """An outgoing question and the most similar incoming question: a candidate edge."""

    question: QuestionId
    target: QuestionId
    similarity: float


@dataclass(frozen=True, slots=True)
class EdgeThreshold:
    """The worst match within the edge budget. Matches are sorted by similarity, then by question
    id.

    Stored in the columns cut_similarity and cut_question.
    """

    similarity: float
    question: QuestionId


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another document by its path, name or address, optionally with `#` and a heading.

    `text` is the link text that a reader sees. It may be empty.
    """

    target: str
    text: str


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The location of a passage in a document: its first and last line, page or slide, counted from
    1.

    `links` are the links in the passage, in order. Stored in the table `placement`.
    """

    passage: PassageId
    first_line: int
    last_line: int
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One revision of a document. `content` is the hash of its bytes.

    `names` are the document's title, aliases and Message-ID. `origin` is the source's description
    of the revision, as a JSON object. `properties` are sorted (name, value) pairs by which queries
    can filter.
    """

    source: int
    path: str
    content: bytes
    media_type: str
    occurrences: tuple[Occurrence, ...]
    names: tuple[str, ...] = ()
    origin: str = "{}"
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a source's item, such as a file, at the last scan.

    `content` is the hash of the item's bytes, or None if they were not read. `why` and `hint` say
    what is wrong with the item and what to do, or are None. `skipped` is a JSON object with the
    number of parts that the reader omitted on purpose, by kind, or None if the item was not read.
    """

    source: int
    path: str
    revision: str
    content: bytes | None
    why: str | None = None
    hint: str | None = None
    skipped: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Pin:
    """A document kept at a restored state for as long as the content of its file does not change.
    `disk` is the hash of that content, or None if there is no file."""

    source: int
    path: str
    disk: bytes | None


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """The settings for generating question sets; a row of the table `recipe`.

    `name` identifies the generator, its version and the models.
    """

    name: str
    encoder: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Version:
    """One committed state of the graph; `created_ms` is Unix time.

    `generation` is the row id of the GenerationConfig. `rules` is the version of the code that
    splits documents into passages. `edge_threshold` is None if the budget admits all matches.
    """

    id: int
    created_ms: int
    reason: str
    generation: int
    rules: str
    documents: int
    passages: int
    words: int
    matches: int
    edge_budget: int
    edge_threshold: EdgeThreshold | None
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """All changes from the head to the next version, which are committed in one transaction.

    `documents_gone` are (source id, path) pairs. `documents_new` replace existing documents at
    their paths. `matches_ended` are the outgoing questions whose matches end. Matches end before
    those in `matches_begun` begin. `pins` replace the pins of the documents that the change
    touches.
    """

    reason: str
    generation: int
    rules: str
    documents_gone: Sequence[tuple[int, str]]
    documents_new: Sequence[Document]
    passages_ended: Sequence[PassageId]
    passages_begun: Sequence[tuple[PassageId, SetId]]
    matches_ended: Sequence[QuestionId]
    matches_begun: Sequence[Match]
    matches: int
    edge_budget: int
    edge_threshold: EdgeThreshold | None
    seen: Sequence[Seen]
    unseen: Sequence[tuple[int, str]]
    counters: dict[str, int]
    pins: Sequence[Pin] = ()


# Words for the rows of tables whose names are not plain words.
_ROW_NAMES = {
    "life": "passage interval",
    "placement": "occurrence",
    "recipe": "generation settings",
    "question_set": "question set",
}


def name_rows(table: str) -> str:
    """Return the name of a table's rows in reports, such as "passage interval"."""
    return _ROW_NAMES.get(table, table)


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated invariant: its name, the kind and key of the row (`where`), the violation
    (`detail`), and what to do (`hint`)."""

    invariant: str
    where: str
    detail: str
    hint: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail} (invariant: {self.invariant}). {self.hint}"


# Scripts without spaces between words. Each character is indexed as a word, so that a search finds
# a part of a phrase.
UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
WORD = re.compile(r"\w+")


def split_unspaced(text: str) -> str:
    """Return the text with spaces around each character of scripts without spaces, for FTS5's
    tokenizer.

    >>> split_unspaced("in 東京 now").split()
    ['in', '東', '京', 'now']
    """
    return text if text.isascii() else UNSPACED.sub(r" \1 ", text)


def count_words(text: str) -> int:
    return len(WORD.findall(split_unspaced(text)))
