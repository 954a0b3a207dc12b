"""Incremental equals rebuild: whatever happens to the files, the graph is the one built afresh."""

import os
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hopsyncd.graph.view import GraphView
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.query.engine import Engine, Head, head_of, load_head
from hopsyncd.query.ranked import Ranked
from hopsyncd.strategy import Search
from hopsyncd.sync.scan import is_under
from hopsyncd.text.questions import BuiltinMaker
from store.content import counters
from store.versions import head
from tests.fakes.dump import ROWS, Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import CountingMaker, FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

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
]
QUESTIONS = ["Who met Rome and Italy?", "Where did X1 run?"]
HEADINGS = ["", "# Rome", "# Italy\n\n## Paris", "# Ada"]
PATHS = ["a.md", "b.md", "x/a.md", "x/b.md", "x/z/c.md", "y/a.md"]
BINARY = b"\x00\x01"
# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

documents = st.builds(
    lambda heading, paragraphs: "\n\n".join([heading, *paragraphs]).strip().encode(),
    st.sampled_from(HEADINGS),
    st.lists(st.sampled_from(PARAGRAPHS), max_size=6),
)
paths = st.sampled_from(PATHS)
# What follows a change: nothing yet, a sync of the paths it touched, or one of everything.
then = st.sampled_from(["wait", "hint", "all", "all"])
Then = Literal["wait", "hint", "all"]


class Incremental(RuleBasedStateMachine):
    """`indexed` is the model: the bytes of every document that the graph should be made of."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY)
        self.base = Path(self.folder.name)
        self.makers = {
            d: CountingMaker(BuiltinMaker(FakeLanguage(), FakeEncoder(d))) for d in (16, 8)
        }
        self.connector = MemoryConnector()
        self.indexed: dict[str, bytes] = {}
        self.deleted: dict[str, bytes] = {}
        self.meanwhile: tuple[str, bytes] | None = None
        self.past: tuple[int, Rows] | None = None

    @initialize(
        batch_documents=st.sampled_from([1, 2, 100]), files=st.dictionaries(paths, documents)
    )
    def begin(self, batch_documents: int, files: dict[str, bytes]) -> None:
        self.batch_documents = batch_documents
        self.factor, self.dimensions = 1.0, 16
        self.stack = self._open()
        for path, data in files.items():
            self.connector.put(path, data)
        self._sync(None)

    def teardown(self) -> None:
        self.connector.unreadable.clear()
        self.connector.vanishing.clear()
        self._sync(None, accept_empty=True)
        self.stack.close()
        self.folder.cleanup()

    @rule(path=paths, data=documents, then=then)
    def write(self, path: str, data: bytes, then: Then) -> None:
        self.connector.put(path, data)
        self._then(then, path)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), paragraph=st.sampled_from(PARAGRAPHS), then=then)
    def append(self, data: st.DataObject, paragraph: str, then: Then) -> None:
        path = self._some_file(data)
        self.connector.put(path, self.connector.files[path] + b"\n\n" + paragraph.encode())
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
        self.connector.put(to, self.connector.files[self._some_file(data)])
        self._then(then, to)

    @rule(folder=st.sampled_from(["x", "x/z", "y"]), to=st.sampled_from(["w", "x/v"]), then=then)
    def move_folder(self, folder: str, to: str, then: Then) -> None:
        for path in [path for path in self.connector.files if is_under(path, folder)]:
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
    def restore(self, data: st.DataObject, then: Then) -> None:
        path = data.draw(st.sampled_from(sorted(self.deleted)))
        self.connector.put(path, self.deleted.pop(path))
        self._then(then, path)

    @precondition(lambda self: self.connector.files)
    @rule(data=st.data(), then=then)
    def touch(self, data: st.DataObject, then: Then) -> None:
        path = self._some_file(data)
        self.connector.put(path, self.connector.files[path])
        self._then(then, path)

    @rule(path=paths, how=st.sampled_from(["binary", "unreadable", "vanishing", "mend"]), then=then)
    def spoil(self, path: str, how: str, then: Then) -> None:
        self.connector.unreadable.discard(path)
        self.connector.vanishing.discard(path)
        if how == "binary":
            self.connector.put(path, BINARY)
        elif how != "mend":
            getattr(self.connector, how).add(path)
        self._then(then, path)

    @rule(path=paths, data=documents)
    def write_during_the_next_sync(self, path: str, data: bytes) -> None:
        self.meanwhile = path, data

    @rule()
    def sync_a_source_that_is_away(self) -> None:
        self.connector.available = False
        assert self.stack.sync(accept_empty=True).problem
        self.connector.available = True
        self._check()

    @rule(accept_empty=st.booleans())
    def sync_all(self, accept_empty: bool) -> None:
        self._sync(None, accept_empty=accept_empty)

    @rule(factor=st.sampled_from([0.0, 0.3, 1.0, 5.0]), dimensions=st.sampled_from([16, 16, 8]))
    def restart(self, factor: float, dimensions: int) -> None:
        self.stack.close()
        self.factor, self.dimensions = factor, dimensions
        self.stack = self._open()
        self.stack.writer.renew()
        self._check()

    @invariant()
    def no_passage_is_made_twice(self) -> None:
        for maker in self.makers.values():
            assert len(set(maker.made)) == len(maker.made)

    def _some_file(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.connector.files)))

    def _open(self) -> Stack:
        encoder = FakeEncoder(self.dimensions)
        self.engine = Engine(self.base / "graph.db", encoder, WalkSettings())
        return Stack(
            self.base / "graph.db",
            self.connector,
            self.makers[self.dimensions],
            budget_factor=self.factor,
            batch_documents=self.batch_documents,
            between=self._between_batches,
        )

    def _between_batches(self) -> None:
        """A file is written, and its hint served, while a sync is on its way."""
        if self.meanwhile:
            (path, data), self.meanwhile = self.meanwhile, None
            self.connector.put(path, data)
            self.stack.sync((path,))
            self._settle([path], [])

    def _then(self, then: Then, *touched: str) -> None:
        if then != "wait":
            self._sync(touched if then == "hint" else None)

    def _sync(self, under: tuple[str, ...] | None, *, accept_empty: bool = False) -> None:
        """Sync and check; the source must pause exactly when nothing would be left of it."""
        there = [path for path in self.connector.files if _covers(under, path)]
        gone = [path for path in self.indexed if _covers(under, path) and path not in there]
        pauses = bool(gone) and len(gone) == len(self.indexed) and not there and not accept_empty
        outcome = self.stack.sync(under, accept_empty=accept_empty)
        assert (outcome.problem is not None) == pauses, outcome
        self.meanwhile = None
        if not pauses:
            self._settle(there, gone)
        self._check()

    def _settle(self, there: list[str], gone: list[str]) -> None:
        for path in there:
            data = self.connector.files[path]
            readable = not data.startswith(BINARY)
            if readable and path not in self.connector.unreadable | self.connector.vanishing:
                self.indexed[path] = data
        for path in gone:
            if path not in self.connector.files:
                self.indexed.pop(path, None)

    def _check(self) -> None:
        connection = self.stack.connection
        newest = head(connection)
        if newest is None:
            assert not self.indexed
            return
        now = graph_at(connection, newest.id)
        files = tuple(sorted(self.indexed.items()))
        assert now == rebuilt(files, self.factor, self.dimensions)
        made = sum(len(maker.made) for maker in self.makers.values())
        assert counters(connection)["passages_generated"] == made
        served = head_of(connection, newest, self.stack.writer.index)
        loaded = load_head(connection, newest, self.dimensions)
        assert readable(served.view) == readable(loaded.view)
        assert self._answers(served) == self._answers(loaded)
        if self.past:
            assert graph_at(connection, self.past[0]) == self.past[1]
        self.past = newest.id, now

    def _answers(self, served: Head) -> list[tuple[Ranked, ...]]:
        self.engine.publish(served)
        answers = [self.engine.query(question, 4, Search()) for question in QUESTIONS]
        return [answer.ranked for answer in answers if answer]


TestIncremental = Incremental.TestCase


@lru_cache(maxsize=100)
def rebuilt(files: tuple[tuple[str, bytes], ...], factor: float, dimensions: int) -> Rows:
    """The graph of these files in a new database."""
    if not files:
        return {**{name: [] for name in ROWS}, "counts": [(0, 0, 0, 0, 0, None)]}
    with TemporaryDirectory(dir=MEMORY) as folder:
        maker = BuiltinMaker(FakeLanguage(), FakeEncoder(dimensions))
        fresh = Stack(
            Path(folder) / "fresh.db", MemoryConnector(dict(files)), maker, budget_factor=factor
        )
        fresh.sync()
        rows = graph_at(fresh.connection, 1)
        fresh.close()
    return rows


def readable(view: GraphView) -> dict[str, object]:
    """A view without what says only where its vectors lie in memory."""
    return {
        "passages": view.passage.tolist(),
        "vectors": view.rows[view.passage_row].tolist(),
        "edges": list(zip(view.source.tolist(), view.target.tolist(), strict=True)),
        "questions": view.question.tolist(),
        "weights": list(zip(view.similarity.tolist(), view.rarity.tolist(), strict=True)),
        "contexts": view.rows[view.context_row].tolist(),
        "mentioned": view.mentioned,
        "mentions": [
            (view.passage[at], name, view.rows[row].tolist())
            for at, name, row in zip(
                view.mentions.passage.tolist(),
                view.mentions.name.tolist(),
                view.mentions.row.tolist(),
                strict=True,
            )
        ],
        "about": {name: sorted(passages) for name, passages in view.about.items()},
    }


def _covers(under: tuple[str, ...] | None, path: str) -> bool:
    return under is None or any(is_under(path, part) for part in under)
