"""A source whose every version is held against a graph built afresh from the files it has then."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis.stateful import RuleBasedStateMachine

from connectors.protocol import Selection
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.ingest.generation_switch import GenerationSwitch
from hopsyncd.ingest.index_loading import follow, load_snapshot
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.changes import Stamp, stamp
from store.check import check
from store.content import get_generation, read_counters
from store.open_database import Database
from store.reads import read_live_documents
from store.records import PassageId, hash_content
from store.sources import read_pins, read_seen_items
from store.versions import list_kept_versions, read_head, read_version
from tests.fakes.dump import Rows, graph_at, served_by
from tests.fakes.follower import NOWHERE, Follower, read_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import CountingMaker, FakeEncoder
from tests.fakes.stack import Stack
from tests.property.drawn import Then
from tests.property.fresh import (
    MEMORY,
    Fresh,
    MakerOf,
    answers_of,
    built_afresh,
    builtin_maker,
)

BINARY = b"\x00\x01"
NOTES = "notes"
RETRY = ""  # a revision that no file has


class Followed(RuleBasedStateMachine):
    """`indexed` is the model: the bytes of every document that the graph should be made of.

    seen: what the last scan saw of each file: its revision, and its bytes if it could be read.
    pins: the documents held at a restored state, with what their files held (None: no file).
    excluded: the paths that were purged. past: every version that can be read, as it was when it
    was committed. dropped: how often gc deleted the content of a passage, by dimensions and id.

    After a change with `then == "wait"` the graph is behind its files, as when the watcher lost the
    events; the next whole sync, of whichever rule, must find all of it.
    """

    make_question_maker: MakerOf = staticmethod(builtin_maker)
    stack: Stack
    dimensions: int
    factor: float
    batch_documents: int

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY)
        self.base = Path(self.folder.name)
        self.at = self.place()
        self.makers = {d: CountingMaker(self.make_question_maker(d)) for d in (16, 8)}
        self.connector = MemoryConnector()
        self.texts: dict[bytes, bytes] = {}
        self.indexed: dict[str, bytes] = {}
        self.seen: dict[str, tuple[str, bytes | None]] = {}
        self.pins: dict[str, bytes | None] = {}
        self.excluded: set[str] = set()
        self.past: dict[int, Rows] = {}
        self.newest = 0
        self.tagged: set[int] = set()
        self.dropped: Counter[tuple[int, PassageId]] = Counter()
        self.deleted: dict[str, bytes] = {}
        self.meanwhile: tuple[str, bytes] | None = None
        self.preempting: tuple[int, str, bytes | None] | None = None
        self.follower = Follower()
        self.asleep = LiveIndex(16)  # follows only after a gc or a purge
        self.asleep_at: tuple[str, Stamp] | None = None  # its encoder, and what it has
        self.lost = 0  # question sets that a kill kept from being stored
        self.switching: GenerationSwitch | None = None

    def _yield_to_edits(self) -> None:
        if self.preempting is None:
            return
        steps, path, text = self.preempting
        self.preempting = None if steps == 0 else (steps - 1, path, text)
        if steps == 0:
            if text is None:
                self.connector.remove(path)
            else:
                self._put(path, text)
            assert self.stack.preempt(path).problem is None

    def _put(self, path: str, data: bytes) -> None:
        self.texts[hash_content(data)] = data
        self.connector.put(path, data)

    def place(self) -> Database:
        """Where the record is that is followed."""
        return self.base / "graph.db"

    def _open(self) -> Stack:
        self.switching = None  # what it has in memory is gone
        encoder = FakeEncoder(self.dimensions)
        self.engine = Engine(self.at, encoder, WalkSettings())
        stack = Stack(
            self.at,
            self.connector,
            self.makers[self.dimensions],
            budget_factor=self.factor,
            batch_documents=self.batch_documents,
            between=self._between_batches,
        )
        stack.path.yield_to_edits = self._yield_to_edits
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
        known = (
            read_live_documents(connection, source).keys()
            | read_seen_items(connection, source).keys()
        )
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
        newest = read_head(connection)
        if newest is None:
            assert not self.indexed
            return
        for number in (n for n in list_kept_versions(connection) if n >= self.newest):
            rows = graph_at(connection, number)
            if number > self.newest:
                # An edit may be committed just before a switch completes.
                of = get_generation(connection, read_version(connection, number).generation)
                fresh = self._fresh(self._files_of(rows), of.dimensions).rows
                assert rows == {name: fresh[name] for name in rows}
            assert rows == self.past.setdefault(number, rows)
        self.newest = newest.id
        assert list_kept_versions(connection) == sorted(self.past)
        self.follower.follow(connection)
        assert self.follower.at(newest.id) == read_at(connection, newest.id)
        assert self._files_of(self.past[newest.id]) == self.indexed
        made = self._fresh(self.indexed)
        served = self.stack.writer.make_snapshot(newest)
        assert served_by(served) == made.served
        self.engine.publish(served)
        assert answers_of(self.engine) == made.answers
        self._check_records()

    def _check_records(self) -> None:
        connection = self.stack.connection
        assert read_pins(connection, self.stack.source.id) == {
            path: None if data is None else hash_content(data) for path, data in self.pins.items()
        }
        made = self._made()
        assert max((made - self.dropped).values(), default=0) <= 1
        assert read_counters(connection)["passages_generated"] == made.total() - self.lost

    def _made(self) -> Counter[tuple[int, PassageId]]:
        """How often a question set was made, by dimensions and passage."""
        return Counter((d, passage) for d in self.makers for passage in self.makers[d].made)

    def _note_lost(self, most: int) -> None:
        """Note the sets that were made and, because of a kill, not stored: at most that many."""
        stored, made = self._stored(), self._made()
        lost = [one for one in made if one not in stored and made[one] > self.dropped[one]]
        assert len(lost) <= most
        self.dropped.update(lost)
        self.lost += len(lost)

    def _check_past(self) -> None:
        """Whatever gc and purge deleted, every kept version reads as before and is sound."""
        self._check()
        for number, rows in self.past.items():
            assert graph_at(self.stack.connection, number) == rows
            assert self.follower.at(number) == read_at(self.stack.connection, number)
        self._wake_index()
        assert check(self.stack.connection, deep=True) == []

    def _wake_index(self) -> None:
        """An index that slept meanwhile follows, and serves what one that is loaded now serves."""
        connection = self.stack.connection
        if (newest := read_head(connection)) is None:
            return
        generation = get_generation(connection, newest.generation)
        encoder, made = self.asleep_at or ("", NOWHERE)
        if encoder != generation.encoder or stamp(connection, made.version) != made:
            self.asleep, made = LiveIndex(generation.dimensions), NOWHERE
        follow(connection, self.asleep, generation.encoder, made.version, newest.id)
        self.asleep_at = generation.encoder, stamp(connection, newest.id)
        woken = Snapshot(self.asleep, newest, Statistics.count(self.asleep, newest.id))
        assert served_by(woken) == served_by(load_snapshot(connection, newest))

    def _fresh(self, files: dict[str, bytes], dimensions: int | None = None) -> "Fresh":
        files_then, of = tuple(sorted(files.items())), dimensions or self.dimensions
        return built_afresh(files_then, self.factor, of, self.make_question_maker)

    def _files_of(self, rows: Rows) -> dict[str, bytes]:
        return {str(path): self.texts[content] for _, path, content, *_ in rows["documents"]}

    def _stored(self) -> set[tuple[int, PassageId]]:
        """The question sets there are, by dimensions and passage."""
        rows = self.stack.connection.execute(
            "SELECT r.dimensions, s.passage FROM question_set AS s JOIN recipe AS r"
            " ON r.id = s.recipe"
        )
        return {(row[0], row[1]) for row in rows}


def _covers(under: tuple[str, ...] | None, path: str) -> bool:
    return Selection(under).has(path)
