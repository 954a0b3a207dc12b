"""Measure the cost of purge, gc, retention, checks, `diff` and `why` under a long history.

The store has documents of one passage each, and thousands of versions that edit three documents
each. Then the source with most of the documents is removed and purged. The rows are invented, but
written as a sync writes them; no text is read and nothing is matched. The longest hold is the
longest time that an edit would wait.

python benchmarks/upkeep.py --documents 20000 --versions 3000
"""

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import JSON, arguments, table, write_result

from store.check import check, refuse_damaged
from store.commit import commit_version
from store.content import put_content, read_sets_at, register_generation
from store.contract import Connection
from store.gc import Retention, collect
from store.history import diff
from store.open_database import open_writer
from store.purge import purge, request_source_purge
from store.records import (
    Change,
    Direction,
    Document,
    EdgeThreshold,
    GenerationConfig,
    Match,
    Occurrence,
    Passage,
    PassageId,
    Question,
    QuestionId,
    QuestionSet,
    compute_question_id,
    compute_set_id,
    hash_content,
    to_grid,
)
from store.sources import register_source
from store.transactions import snapshot
from store.versions import read_version

_RECIPE = GenerationConfig("invented", "invented", 384)
_TEXTS, _QUESTIONS = 5, 4  # of a passage
_STAY = 10  # one document in 10 is in the source that stays
_EDITED = 3  # documents a version
_ADMITTED = 0.8  # of the matches
_IMPORT = 2000  # documents a version
_LATER_MS = 10**12


@dataclass(slots=True)
class Store:
    """A store that is being filled. `now` has the number of edits of each document, and `ranked`
    the current matches, most similar first."""

    connection: Connection
    chance: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    now: dict[int, int] = field(default_factory=dict)
    similarity: dict[QuestionId, float] = field(default_factory=dict)
    ranked: list[tuple[float, QuestionId]] = field(default_factory=list)
    generation: int = field(init=False)
    sources: list[int] = field(init=False)
    head: int = 0

    def __post_init__(self) -> None:
        self.generation = register_generation(self.connection, _RECIPE)
        self.sources = [
            register_source(self.connection, name, "folder", name) for name in ("goes", "stays")
        ]

    def source(self, number: int) -> int:
        return self.sources[number % _STAY == 0]

    def put(self, numbers: list[int]) -> None:
        """Commit a version in which these documents are new or edited."""
        ended = [self._set(number) for number in numbers if number in self.now]
        for number in numbers:
            self.now[number] = self.now.get(number, -1) + 1
        made = [self._passage(number) for number in numbers]
        put_content(self.connection, self.generation, made)
        change = self._change(
            numbers,
            ended=ended,
            begun=[one for _, one in made],
            new=[self._document(number) for number in numbers],
        )
        self.commit(change)

    def commit(self, change: Change) -> None:
        self.head = commit_version(self.connection, change, 1_000_000 + self.head).id

    def removal(self) -> Change:
        """The change that removes the source."""
        numbers = [number for number in self.now if self.source(number) == self.sources[0]]
        ended = [self._set(number) for number in numbers]
        gone = [(self.sources[0], f"{number}.md") for number in numbers]
        for number in numbers:
            del self.now[number]
        return self._change([], ended=ended, gone=gone)

    def _change(
        self,
        numbers: list[int],
        ended: list[QuestionSet],
        begun: list[QuestionSet] | None = None,
        new: list[Document] | None = None,
        gone: list[tuple[int, str]] | None = None,
    ) -> Change:
        begun = begun or []
        gone_questions = [id_ for one in ended for id_ in _outgoing(one)]
        matches = [match for number in numbers for match in self._matches(number)]
        budget, edge_threshold = self._ranked(gone_questions, matches)
        return Change(
            reason="invented",
            generation=self.generation,
            rules="",
            documents_gone=gone or [],
            documents_new=new or [],
            passages_ended=[interval.passage for interval in ended],
            passages_begun=[(question_set.passage, question_set.id) for question_set in begun],
            matches_ended=gone_questions,
            matches_begun=matches,
            matches=len(self.ranked),
            edge_budget=budget,
            edge_threshold=edge_threshold,
            seen=[],
            unseen=[],
            counters={},
        )

    def _ranked(self, gone: list[QuestionId], new: list[Match]) -> tuple[int, EdgeThreshold]:
        """Rank the matches again. Returns the budget and the edge threshold."""
        for question in gone:
            del self.ranked[bisect_left(self.ranked, (-self.similarity.pop(question), question))]
        for match in new:
            self.similarity[match.question] = match.similarity
            insort(self.ranked, (-match.similarity, match.question))
        budget = int(len(self.ranked) * _ADMITTED)
        falling, question = self.ranked[budget - 1]
        return budget, EdgeThreshold(-falling, question)

    def _matches(self, number: int) -> Iterator[Match]:
        """Yield the matches from a document's outgoing questions to incoming questions of a
        document that never changes."""
        other = 0 if number else _STAY
        if _is_quiet(number) and number > 4:
            other = number - 4
        anchor = _incoming(self._set(other))
        for index, question in enumerate(_outgoing(self._set(number))):
            yield Match(question, anchor[index], float(self.chance.random()))

    def _text(self, number: int) -> Passage:
        return Passage(
            (f"Document {number}",), f"As of edit {self.now.get(number, 0)} it is {number}."
        )

    def _set(self, number: int) -> QuestionSet:
        return _questions(self._text(number).id, np.zeros((_TEXTS, _RECIPE.dimensions), np.int16))

    def _passage(self, number: int) -> tuple[Passage, QuestionSet]:
        passage = self._text(number)
        vectors = to_grid(self.chance.standard_normal((_TEXTS, _RECIPE.dimensions)))
        return passage, _questions(passage.id, vectors)

    def _document(self, number: int) -> Document:
        passage = self._text(number)
        content = hash_content(passage.text.encode())
        place = (Occurrence(passage.id, 1, 1),)
        return Document(self.source(number), f"{number}.md", content, "text/markdown", place)


def _is_quiet(number: int) -> bool:
    return number % 4 == 1


def _questions(passage: PassageId, vectors: np.ndarray) -> QuestionSet:
    id_ = compute_set_id(passage, _RECIPE.name)
    questions = tuple(
        Question(
            compute_question_id(id_, direction, ordinal),
            direction,
            "?",
            frozenset({"rome"}),
            ordinal + 1,
        )
        for direction in Direction
        for ordinal in range(_QUESTIONS // 2)
    )
    return QuestionSet(id_, passage, questions, vectors)


def _outgoing(one: QuestionSet) -> list[QuestionId]:
    return [asked.id for asked in one.questions if asked.direction is Direction.OUTGOING]


def _incoming(one: QuestionSet) -> list[QuestionId]:
    return [asked.id for asked in one.questions if asked.direction is Direction.INCOMING]


@dataclass(slots=True)
class Timer:
    """The duration of work, and the longest time between two of its steps."""

    began_s: float = field(default_factory=time.monotonic)
    longest_s: float = 0.0
    last_s: float = field(default_factory=time.monotonic)

    def step(self) -> None:
        now_s = time.monotonic()
        self.longest_s, self.last_s = max(self.longest_s, now_s - self.last_s), now_s


def _timed(
    connection: Connection, name: str, work: Callable[[Callable[[], None]], object]
) -> list[object]:
    timer, began_s = Timer(), time.process_time()
    work(timer.step)
    timer.step()
    took_s, worked_s = timer.last_s - timer.began_s, time.process_time() - began_s
    megabytes = connection.measure_size() / 1e6
    return [name, *(f"{s:.2f}" for s in (took_s, worked_s, timer.longest_s)), megabytes]


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        JSON,
        ("--documents", {"type": int, "default": 20_000}),
        ("--versions", {"type": int, "default": 3_000}),
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "upkeep.db"
        connection = open_writer(path)
        total = given.documents * _STAY // (_STAY - 1)
        store = Store(connection)
        for start in range(0, total, _IMPORT):
            store.put([*range(start, min(start + _IMPORT, total))])
        first = store.head
        lively = [number for number in range(_STAY + 1, total) if not _is_quiet(number)]
        for _ in range(given.versions):
            store.put(sorted({*store.chance.choice(lively, _EDITED).tolist()}))
        work: list[tuple[str, Callable[[Callable[[], None]], object]]] = [
            ("opening check", lambda _: refuse_damaged(connection)),
            ("question sets of the head", lambda _: [*read_sets_at(connection, store.head)]),
            ("diff of all versions", lambda _: _diff(connection, first, store.head)),
            ("deep check", lambda _: _checked(connection)),
        ]
        rows = [_timed(connection, *one) for one in work]
        removal = store.removal()
        work = [
            ("a version without a source", lambda _: store.commit(removal)),
            ("purge", lambda step: _purged(connection, store.sources[0], step)),
            ("gc", lambda step: collect(connection, Retention(10, 0), _LATER_MS, step)),
            ("deep check after both", lambda _: _checked(connection)),
        ]
        rows += [_timed(connection, *one) for one in work]
        connection.close()
    print(f"\n{total} documents, {store.head} versions, one source purged\n")
    columns = ["task", "seconds", "processor s", "longest an edit waited, s", "database after, MB"]
    table(columns, rows)
    if given.json:
        write_result("upkeep", columns, rows)


def _purged(connection: Connection, source: int, step: Callable[[], None]) -> None:
    purge(connection, request_source_purge(connection, source), step)


def _diff(connection: Connection, old: int, new: int) -> None:
    with snapshot(connection):
        diff(connection, read_version(connection, old), read_version(connection, new))


def _checked(connection: Connection) -> None:
    found = check(connection, deep=True)
    assert found == [], [str(one) for one in found[:5]]


if __name__ == "__main__":
    main()
