"""Incremental equals rebuild: whatever happens to the files, the graph is the one built afresh.

The test command runs 300 sequences of up to 50 steps; HYPOTHESIS_PROFILE=nightly runs 10,000.

A failure prints the shortest program found that shows it, its seed, and a `@reproduce_failure`
line. To run it again:

- The whole search, also on another machine: `HYPOTHESIS_SEED=N` before the same command tries the
  same sequences in the same order. Only this module heeds it.
- The shortest program alone, also on another machine: put the line `@reproduce_failure(...)` above
  `class Incremental`, and `from hypothesis import reproduce_failure` above that. It holds for that
  version of hypothesis and while the rules are as they are; DidNotReproduce means that it passes.
- On the machine that found it: the next run begins with it, out of .hypothesis.
"""

import os
import secrets
import sys
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from connectors.parts import Parts
from hopsyncd.graph.merge import MergeIndex
from hopsyncd.graph.view import view_of
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.query.engine import Engine
from hopsyncd.query.head import head_of
from hopsyncd.query.ranked import Ranked
from hopsyncd.strategy import Search
from hopsyncd.text.questions import BuiltinMaker
from hopsyncd.upkeep import purged
from store.check import check
from store.content import counters
from store.gc import Retention, collect
from store.history import delete_tag, set_tag
from store.purge import include_again
from store.reads import live_documents
from store.records import content_hash
from store.sources import pins_of, release_pins, seen_items
from store.versions import head, kept_versions
from tests.fakes.dump import ROWS, Rows, graph_at, served_by, without
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import CountingMaker, FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

SEED = int(os.environ.get("HYPOTHESIS_SEED", secrets.randbits(32)))

# Few words, so that the same passage, the same similarity and the same name come up often.
PARAGRAPHS = [
    "Rome is in Italy.",
    "Rome met Carthage. Carthage lost.",
    "Italy borders France.",
    "Paris is in France.",
    "France met Italy. Rome met Paris.",
    "Ada wrote X1 in 1843.",
    "X1 ran in Paris.",
    "Babbage met Ada. Ada met Rome.",
    "nothing of note",
    "...",
    "See [[b]], [Ada](../x/a.md) and [[Rome|the city]].",
    "[[Ada]] met [[#Paris]].",
]
QUESTIONS = ["Who met Rome and Italy?", "Where did X1 run?"]
SEARCHES = [Search("hop"), Search("hybrid")]  # between them all of the read path
HEADINGS = [
    "",
    "# Rome",
    "# Italy\n\n## Paris",
    "# Ada",
    "---\ntitle: Ada\naliases: [Rome]\ntags: b\n---",
]
PATHS = ["a.md", "b.md", "x/a.md", "x/b.md", "x/z/Rome.md", "y/a.md"]
CHANGES = ["as restored", "as before", "unreadable", "seen and gone", "deleted"]  # of a pinned file
BINARY = b"\x00\x01"
NOTES = "notes"
LATER_MS = 10_000_000_000  # long after every version of a Stack
RETRY = ""  # a revision that no file has
# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

documents = st.builds(
    lambda heading, paragraphs: "\n\n".join([heading, *paragraphs]).strip().encode(),
    st.sampled_from(HEADINGS),
    st.lists(st.sampled_from(PARAGRAPHS), max_size=6),
)
paths = st.sampled_from(PATHS)
# What the daemon does about a change: nothing, as when the watcher's events were lost; a sync of
# the first path touched, as when the event of the other was; one of the paths; one of everything.
Then = Literal["wait", "first", "hint", "all"]
then = st.sampled_from(["all", "all", "hint", "first", "wait"])

Files = tuple[tuple[str, bytes], ...]


class Killed(Exception):
    """A gc ends between two of its transactions."""


@seed(SEED)
class Incremental(RuleBasedStateMachine):
    """`indexed` is the model: the bytes of every document that the graph should be made of.

    seen: what the last scan saw of each file: its revision, and its bytes if it could be read.
    pins: the documents held at a restored state, with what their files held (None: no file).
    excluded: the paths that were purged. past: every version that can be read, as it was when it
    was committed. dropped: how often gc deleted the content of a passage, by dimensions and id.

    After a change with `then == "wait"` the graph is behind its files, as when the watcher lost the
    events; the next whole sync, of whichever rule, must find all of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY)
        self.base = Path(self.folder.name)
        self.makers = {
            d: CountingMaker(BuiltinMaker(FakeLanguage(), FakeEncoder(d))) for d in (16, 8)
        }
        self.connector = MemoryConnector()
        self.texts: dict[str, bytes] = {}
        self.indexed: dict[str, bytes] = {}
        self.seen: dict[str, tuple[str, bytes | None]] = {}
        self.pins: dict[str, bytes | None] = {}
        self.excluded: set[str] = set()
        self.past: dict[int, Rows] = {}
        self.newest = 0
        self.tagged: set[int] = set()
        self.dropped: Counter[tuple[int, int]] = Counter()
        self.deleted: dict[str, bytes] = {}
        self.meanwhile: tuple[str, bytes] | None = None
        self.overtaking: tuple[int, str, bytes | None] | None = None

    @initialize(
        batch_documents=st.sampled_from([1, 2, 100]),
        files=st.dictionaries(paths, documents, min_size=2) | st.just({}),
    )
    def begin(self, batch_documents: int, files: dict[str, bytes]) -> None:
        note(f"HYPOTHESIS_SEED={SEED}")
        self.batch_documents = batch_documents
        self.factor, self.dimensions = 1.0, 16
        self.stack = self._open()
        for path, data in files.items():
            self._put(path, data)
        self._sync(None)

    def teardown(self) -> None:
        # What failed already must not be hidden by what fails because of it.
        if sys.exc_info()[0] is None:
            self._end()
        self.stack.close()
        self.folder.cleanup()

    def _end(self) -> None:
        """With nothing in the way and no pin left, the graph is that of the files."""
        self.connector.unreadable.clear()
        self.connector.vanishing.clear()
        self.release("wait")
        self._sync(None, accept_empty=True)
        readable = {p: d for p, d in self.connector.files.items() if not d.startswith(BINARY)}
        assert readable.items() - self.indexed.items() == {
            (path, readable[path]) for path in self.excluded & readable.keys()
        }
        assert self.indexed.keys() <= self.connector.files.keys()
        self._check_past()

    @rule(files=st.dictionaries(paths, documents, min_size=1, max_size=3), then=then)
    def write(self, files: dict[str, bytes], then: Then) -> None:
        for path, data in files.items():
            self._put(path, data)
        self._then(then, *files)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), paragraph=st.sampled_from(PARAGRAPHS), then=then)
    def append(self, data: st.DataObject, paragraph: str, then: Then) -> None:
        path = self._some_file(data)
        self._put(path, self.connector.files[path] + b"\n\n" + paragraph.encode())
        self._then(then, path)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), to=paths, then=then)
    def rename(self, data: st.DataObject, to: str, then: Then) -> None:
        path = self._some_file(data)
        if path != to:
            self.connector.move(path, to)
        self._then(then, path, to)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), to=paths, then=then)
    def copy(self, data: st.DataObject, to: str, then: Then) -> None:
        self._put(to, self.connector.files[self._some_file(data)])
        self._then(then, to)

    @rule(folder=st.sampled_from(["x", "x/z", "y"]), to=st.sampled_from(["w", "x/v"]), then=then)
    def move_folder(self, folder: str, to: str, then: Then) -> None:
        for path in [path for path in self.connector.files if Parts([folder]).has(path)]:
            self.connector.move(path, to + path.removeprefix(folder))
        self._then(then, folder, to)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), then=then)
    def delete(self, data: st.DataObject, then: Then) -> None:
        path = self._some_file(data)
        self.deleted[path] = self.connector.files[path]
        self.connector.remove(path)
        self._then(then, path)

    @precondition(lambda self: self.deleted)
    @rule(data=st.data(), then=then)
    def bring_back(self, data: st.DataObject, then: Then) -> None:
        path = data.draw(st.sampled_from(sorted(self.deleted)))
        self._put(path, self.deleted.pop(path))
        self._then(then, path)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), then=then)
    def touch(self, data: st.DataObject, then: Then) -> None:
        path = self._some_file(data)
        self._put(path, self.connector.files[path])
        self._then(then, path)

    @rule(path=paths, how=st.sampled_from(["binary", "unreadable", "vanishing", "mend"]), then=then)
    def spoil(self, path: str, how: str, then: Then) -> None:
        self.connector.unreadable.discard(path)
        self.connector.vanishing.discard(path)
        if how == "binary":
            self._put(path, BINARY)
        elif how != "mend":
            getattr(self.connector, how).add(path)
        self._then(then, path)

    @rule(data=st.data(), text=documents, now=st.booleans())
    def write_during_the_next_sync_or_gc(self, data: st.DataObject, text: bytes, now: bool) -> None:
        """Rather a file that the sync finds missing: it must look again before it removes.

        now: that sync comes at once, and with all files touched it has many batches.
        """
        missing = sorted(self.indexed.keys() - self.connector.files.keys())
        self.meanwhile = data.draw(st.sampled_from(missing or PATHS)), text
        if now:
            for path, was in list(self.connector.files.items()):
                self._put(path, was)
            self._sync(None)

    @rule(
        data=st.data(),
        files=st.dictionaries(paths, documents, min_size=1, max_size=4),
        text=st.none() | documents,
        steps=st.integers(0, 30),
    )
    def overtake(
        self, data: st.DataObject, files: dict[str, bytes], text: bytes | None, steps: int
    ) -> None:
        """A hint is served at some slow step of a sync: after a listed item, a fetch, a question
        set. Nothing is left to a later scan. text: None deletes the file."""
        for path, new in files.items():
            self._put(path, new)
        there = self.connector.files.keys() - self.pins.keys()
        new_paths = set(PATHS) - self.pins.keys() - self.indexed.keys() - self.seen.keys()
        some = there if text is None else there | new_paths
        some = {path for path in some if self.indexed.keys() - {path}}
        if some:
            self.overtaking = steps, data.draw(st.sampled_from(sorted(some))), text
        assert self.stack.sync().problem is None
        self.overtaking = self.meanwhile = None
        known = self.indexed.keys() | self.seen.keys()
        held = {path for path, disk in self.pins.items() if disk is None and path not in self.seen}
        self._settle([*self.connector.files], [*(known - self.connector.files.keys() - held)])
        self._check()

    def _give_way(self) -> None:
        if self.overtaking is None:
            return
        steps, path, text = self.overtaking
        self.overtaking = None if steps == 0 else (steps - 1, path, text)
        if steps == 0:
            if text is None:
                self.connector.remove(path)
            else:
                self._put(path, text)
            assert self.stack.overtake(path).problem is None

    @rule()
    def sync_all(self) -> None:
        self._sync(None)

    @rule(how=st.sampled_from(["accept empty", "away"]))
    def sync_another_way(self, how: str) -> None:
        if how == "accept empty":
            self._sync(None, accept_empty=True)
            return
        self.connector.available = False
        assert self.stack.sync(accept_empty=True).problem
        self.connector.available = True
        self._check()

    @rule(change=st.none() | st.sampled_from([0.0, 0.3, 1.0, 5.0]) | st.sampled_from([16, 8]))
    def restart(self, change: float | int | None) -> None:
        """With the same configuration, another edge budget, or an encoder of other dimensions."""
        if isinstance(change, int):
            self.dimensions = change
        elif change is not None:
            self.factor = change
        self.stack.close()
        self.stack = self._open()
        self.stack.writer.renew()
        self._check()

    @precondition(lambda self: self.past)
    @rule(data=st.data(), how=st.none() | st.sampled_from(CHANGES), then=then)
    def restore_version(self, data: st.DataObject, how: str | None, then: Then) -> None:
        """Every document that this changes is pinned until its file is another than at the scan."""
        others = [n for n in self.past if self._files_of(self.past[n]) != self.indexed]
        number = data.draw(st.sampled_from(sorted(others or self.past)))
        wanted = self._files_of(self.past[number])
        made = self.stack.path.restore(number, {self.stack.source.id: NOTES})
        changed = {path for path, _ in wanted.items() ^ self.indexed.items()}
        assert (made is not None) == bool(changed)
        for path in changed:
            self.pins[path] = self.seen[path][1] if path in self.seen else None
        self.indexed = wanted
        self._check()
        if how and self.pins:
            self.change_a_pinned_file(data, how, then)

    @precondition(lambda self: self.pins)
    @rule(data=st.data(), how=st.sampled_from(CHANGES), then=then)
    def change_a_pinned_file(self, data: st.DataObject, how: str, then: Then) -> None:
        path = data.draw(st.sampled_from(sorted(self.pins)))
        self.connector.unreadable.discard(path)
        if how in ("unreadable", "seen and gone"):
            self.connector.unreadable.add(path)
            self._put(path, b"")
        if how == "seen and gone":
            self._sync((path,))
        was = {"as restored": self.indexed.get(path), "as before": self.pins.get(path)}
        text = was.get(how)
        if text is not None:
            self._put(path, text)
        elif how != "unreadable" and path in self.connector.files:
            self.connector.remove(path)
        self._then(then, path)

    @precondition(lambda self: self.pins)
    @rule(then=then)
    def release(self, then: Then) -> None:
        """The next sync reads every document again that was pinned."""
        touched = sorted(self.pins)
        assert release_pins(self.stack.connection, self.stack.source.id) == len(self.pins)
        for path in self.pins.keys() & self.seen.keys():
            self.seen[path] = RETRY, self.seen[path][1]
        self.pins.clear()
        self._check()
        self._then(then, *touched)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def tag_or_untag(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.past)))
        if number in self.tagged:
            delete_tag(self.stack.connection, f"v{number}")
        else:
            set_tag(self.stack.connection, f"v{number}", number, LATER_MS)
        self.tagged ^= {number}

    @rule(keep=st.integers(1, 4), killed_after=st.sampled_from([None, None, 0, 1, 2, 4]))
    def gc(self, keep: int, killed_after: int | None) -> None:
        """What is kept reads as before, also when the gc is killed or a version comes meanwhile."""
        newest = self.newest
        expired = {n for n in self.past if n <= newest - keep and n not in self.tagged}
        self.past = {n: rows for n, rows in self.past.items() if n not in expired}
        stored = self._stored()
        steps = 0

        def between() -> None:
            nonlocal steps, stored
            self.dropped.update(stored - self._stored())
            self._between_batches()
            stored = self._stored()
            steps += 1
            if killed_after is not None and steps > killed_after:
                raise Killed

        try:
            done = collect(self.stack.connection, Retention(keep, 0), LATER_MS, between)
        except Killed:
            pass
        else:
            assert set(done.versions) == expired
        self.meanwhile = None
        self._check_past()

    @precondition(lambda self: self.indexed or self.excluded)
    @rule(data=st.data())
    def purge_or_include_again(self, data: st.DataObject) -> None:
        """Gone from every version, whose other documents keep what they have."""
        path = data.draw(st.sampled_from(sorted(self.indexed.keys() | self.excluded)))
        if path in self.excluded:
            assert include_again(self.stack.connection, self.stack.source.id, path)
            self.excluded.remove(path)
            return
        stored = self._stored()
        assert purged(self.stack.path, path, NOTES, LATER_MS)["erased"]
        self.dropped.update(stored - self._stored())
        self.excluded.add(path)
        self._forget(path)
        for number, rows in self.past.items():
            left = graph_at(self.stack.connection, number)
            assert {**left, "counts": []} == {**without(rows, path), "counts": []}
            self.past[number] = left
        self._check_past()

    @rule(restart=st.booleans())
    def rebuild(self, restart: bool) -> None:
        made = self.stack.writer.rebuild()
        assert (made.id if made else 0) == self.newest + bool(self.past)
        self._check()
        if restart:
            self.restart(None)

    def _some_file(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.connector.files)))

    def _put(self, path: str, data: bytes) -> None:
        self.texts[content_hash(data).hex().upper()] = data
        self.connector.put(path, data)

    def _open(self) -> Stack:
        encoder = FakeEncoder(self.dimensions)
        self.engine = Engine(self.base / "graph.db", encoder, WalkSettings())
        stack = Stack(
            self.base / "graph.db",
            self.connector,
            self.makers[self.dimensions],
            budget_factor=self.factor,
            batch_documents=self.batch_documents,
            between=self._between_batches,
        )
        stack.path.give_way = self._give_way
        return stack

    def _between_batches(self) -> None:
        """A file is written, and its hint served, while a sync or a gc is on its way."""
        if self.meanwhile:
            (path, data), self.meanwhile = self.meanwhile, None
            if path not in self.connector.files and self._is_removed(path):
                self._forget(path)
            self._put(path, data)
            self.stack.sync((path,))
            self._settle([path], [])

    def _then(self, then: Then, *touched: str) -> None:
        if then != "wait":
            self._sync({"first": touched[:1], "hint": touched, "all": None}[then])

    def _sync(self, under: tuple[str, ...] | None, *, accept_empty: bool = False) -> None:
        """Sync and check; the source must pause exactly when nothing would be left of it."""
        there = [path for path in self.connector.files if _covers(under, path)]
        gone = [
            path
            for path in self.indexed.keys() | self.seen.keys()
            if _covers(under, path)
            and path not in there
            and not (path in self.pins and self.pins[path] is None and path not in self.seen)
        ]
        emptied = bool(self.indexed) and self.indexed.keys() <= set(gone)
        pauses = emptied and not there and not accept_empty
        outcome = self.stack.sync(under, accept_empty=accept_empty)
        assert (outcome.problem is not None) == pauses, outcome
        self.meanwhile = None
        if not pauses:
            self._settle(there, gone)
        self._check()

    def _settle(self, there: list[str], gone: list[str]) -> None:
        for path in there:
            revision, data = self.connector.revisions[path], self.connector.files[path]
            unchanged = path in self.seen and self.seen[path][0] == revision
            if unchanged or path in self.connector.vanishing | self.excluded:
                continue
            if path in self.connector.unreadable:
                self.seen[path] = RETRY, None
                continue
            self.seen[path] = revision, data
            if path in self.pins and self.pins[path] == data:
                continue
            self.pins.pop(path, None)
            if not data.startswith(BINARY):
                self.indexed[path] = data
        for path in gone:
            if path not in self.connector.files:
                self._forget(path)

    def _is_removed(self, path: str) -> bool:
        """Whether the batch that takes the document out has come already."""
        connection, source = self.stack.connection, self.stack.source.id
        known = live_documents(connection, source).keys() | seen_items(connection, source).keys()
        return path in self.indexed.keys() | self.seen.keys() and path not in known

    def _forget(self, path: str) -> None:
        for model in (self.indexed, self.seen, self.pins):
            model.pop(path, None)

    def _check(self) -> None:
        """Every version since the last check is the one built afresh, the one before is as it was.

        The newest has the documents of the model, is served as it is stored, and cost no more
        than it had to.
        """
        connection = self.stack.connection
        newest = head(connection)
        if newest is None:
            assert not self.indexed
            return
        for number in (n for n in kept_versions(connection) if n >= self.newest):
            rows = graph_at(connection, number)
            if number > self.newest:
                assert rows == self._fresh(self._files_of(rows)).rows
            assert rows == self.past.setdefault(number, rows)
        self.newest = newest.id
        assert kept_versions(connection) == sorted(self.past)
        assert self._files_of(self.past[newest.id]) == self.indexed
        fresh = self._fresh(self.indexed)
        served = head_of(connection, newest, self.stack.writer.index)
        assert served_by(served.view) == fresh.served
        self.engine.publish(served)
        assert answers_of(self.engine) == fresh.answers
        self._check_records()

    def _check_records(self) -> None:
        connection = self.stack.connection
        assert pins_of(connection, self.stack.source.id) == {
            path: None if data is None else content_hash(data) for path, data in self.pins.items()
        }
        made = Counter((d, passage) for d in self.makers for passage in self.makers[d].made)
        assert max((made - self.dropped).values(), default=0) <= 1
        assert counters(connection)["passages_generated"] == made.total()

    def _check_past(self) -> None:
        """Whatever gc and purge deleted, every kept version reads as before and is sound."""
        self._check()
        for number, rows in self.past.items():
            assert graph_at(self.stack.connection, number) == rows
        assert check(self.stack.connection, deep=True) == []

    def _fresh(self, files: dict[str, bytes]) -> "Fresh":
        return built_afresh(tuple(sorted(files.items())), self.factor, self.dimensions)

    def _files_of(self, rows: Rows) -> dict[str, bytes]:
        return {str(path): self.texts[str(content)] for _, path, content, *_ in rows["documents"]}

    def _stored(self) -> set[tuple[int, int]]:
        """The question sets there are, by dimensions and passage."""
        rows = self.stack.connection.execute(
            "SELECT r.dimensions, s.passage FROM question_set AS s JOIN recipe AS r"
            " ON r.id = s.recipe"
        )
        return {(row[0], row[1]) for row in rows}


TestIncremental = Incremental.TestCase
TestIncremental.settings = settings(
    TestIncremental.settings, max_examples=max(300, TestIncremental.settings.max_examples)
)


@dataclass(frozen=True, slots=True)
class Fresh:
    """A graph built in a new database: its rows, its view, and what it answers."""

    rows: Rows
    served: dict[str, object]
    answers: list[tuple[Ranked, ...]]


@lru_cache(maxsize=500)
def built_afresh(files: Files, factor: float, dimensions: int) -> Fresh:
    """The graph of these files alone."""
    if not files:
        nothing = {**{name: [] for name in ROWS}, "counts": [(0, 0, 0, 0, 0, None)]}
        served = served_by(view_of(MergeIndex(dimensions), 0))
        return Fresh(nothing, served, [()] * len(QUESTIONS) * len(SEARCHES))
    with TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "fresh.db"
        maker = BuiltinMaker(FakeLanguage(), FakeEncoder(dimensions))
        stack = Stack(path, MemoryConnector(dict(files)), maker, budget_factor=factor)
        stack.sync()
        engine = Engine(path, FakeEncoder(dimensions), WalkSettings())
        engine.publish(served := head_of(stack.connection, stack.head, stack.writer.index))
        fresh = Fresh(graph_at(stack.connection, 1), served_by(served.view), answers_of(engine))
        stack.close()
    return fresh


def answers_of(engine: Engine) -> list[tuple[Ranked, ...]]:
    """What the engine answers to each of QUESTIONS by each of SEARCHES."""
    answers = [engine.query(question, 4, search) for question in QUESTIONS for search in SEARCHES]
    return [answer.ranked for answer in answers if answer]


def _covers(under: tuple[str, ...] | None, path: str) -> bool:
    return Parts(under).has(path)
