"""Incremental equals rebuild: whatever happens to the files, the graph is the one built afresh.

The test command runs 24 sequences of up to 50 steps, the same each time; HYPOTHESIS_SEED=N
before it runs others, and HYPOTHESIS_PROFILE=nightly 10,000 that no run had before.

A failure prints the shortest program found that shows it, its seed, and a `@reproduce_failure`
line. To run it again:

- The whole search, also on another machine: `HYPOTHESIS_SEED=N` before the same command tries the
  same sequences in the same order. Only this module heeds it.
- The shortest program alone, also on another machine: put the line `@reproduce_failure(...)` above
  `class Incremental`, and `from hypothesis import reproduce_failure` above that. It holds for that
  version of hypothesis and while the rules are as they are; DidNotReproduce means that it passes.
- On the machine where a nightly run found it: the next one begins with it, out of .hypothesis.
"""

import os
import secrets
import sys
from collections.abc import Callable
from functools import partial

from hypothesis import note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from connectors.protocol import Selection
from hopsyncd.ingest.generation_switch import GenerationSwitch
from hopsyncd.ingest.upkeep import purge_document
from store.gc import Retention, collect
from store.history import delete_tag, set_tag
from store.sources import include_again, release_pins
from tests.fakes.dump import graph_at, without
from tests.property.drawn import PARAGRAPHS, PATHS, Then, documents, paths, then
from tests.property.followed import BINARY, NOTES, RETRY, Followed
from tests.property.fresh import statement_maker

ALWAYS_THE_SAME = settings().derandomize
SEED = int(os.environ.get("HYPOTHESIS_SEED", 1 if ALWAYS_THE_SAME else secrets.randbits(32)))

CHANGES = ["as restored", "as before", "unreadable", "seen and gone", "deleted"]  # of a pinned file
_PIECE = 2  # passages that a switch prepares together
LATER_MS = 10_000_000_000  # long after every version of a Stack


class Killed(Exception):
    """A gc ends between two of its transactions."""


@seed(SEED)
class Incremental(Followed):
    """What may happen to the files, the source and the store."""

    yield_in_switch: Callable[[], None]

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
        for path in [path for path in self.connector.files if Selection([folder]).has(path)]:
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
    def preempt(
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
            self.preempting = steps, data.draw(st.sampled_from(sorted(some))), text
        assert self.stack.sync().problem is None
        self.preempting = self.meanwhile = None
        known = self.indexed.keys() | self.seen.keys()
        held = {path for path, disk in self.pins.items() if disk is None and path not in self.seen}
        self._settle([*self.connector.files], [*(known - self.connector.files.keys() - held)])
        self._check()

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
        self._restart(change)

    def _restart(self, change: float | int | None) -> None:
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
        made = self.stack.restore(number)
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

    @rule(
        data=st.data(),
        pieces=st.integers(1, 4),
        text=st.none() | documents,
        killed_after=st.sampled_from([None, None, None, 0, 1, 2]),
    )
    def switch(
        self, data: st.DataObject, pieces: int, text: bytes | None, killed_after: int | None
    ) -> None:
        """Build the generation of another encoder beside, until one version switches to it.

        It goes on whenever this rule comes again, with whatever has happened since; a kill loses
        only what is in memory. A file can be written meanwhile.
        """
        other = self.makers[24 - self.dimensions]
        if text is not None:
            self.meanwhile = data.draw(st.sampled_from(PATHS)), text
        yields, left = 0, iter(range(pieces, -1, -1))

        def yield_to_edits() -> None:
            nonlocal yields
            self._between_batches()
            yields += 1
            if killed_after is not None and yields > killed_after:
                raise Killed

        if self.switching is None:
            self.switching = GenerationSwitch(
                self.stack.connection,
                partial(self.stack.writer_by, other),
                self._yield_in_switch,
                piece=_PIECE,
            )
        self.yield_in_switch = yield_to_edits
        try:
            version = self.switching.run(lambda: next(left) > 0)
        except Killed:
            self._note_lost(_PIECE)
            self._restart(None)
        else:
            if version:
                assert self.switching.progress.done == version.passages
                self.dimensions = 24 - self.dimensions
                self.stack.close()
                self.stack = self._open()
        self.meanwhile = None
        self._check()

    def _yield_in_switch(self) -> None:
        self.yield_in_switch()

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
        assert purge_document(self.stack.path, path, NOTES, LATER_MS)["erased"]
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


class IncrementalStatements(Incremental):
    """The same where an LLM says what passages state.

    It is asked only later about an edit that preempts and about all passages for a new encoder:
    until then these sets are provisional, and test_preempt.py and test_provisional.py hold them.
    """

    make_question_maker = staticmethod(statement_maker)

    @precondition(lambda self: False)
    @rule()
    def preempt(self) -> None: ...

    @precondition(lambda self: False)
    @rule()
    def switch(self) -> None: ...

    @rule(change=st.none() | st.sampled_from([0.0, 0.3, 1.0, 5.0]))
    def restart(self, change: float | int | None) -> None:
        self._restart(change)


TestIncremental = Incremental.TestCase
TestIncrementalStatements = seed(SEED)(IncrementalStatements).TestCase
TestIncrementalStatements.settings = settings(max_examples=settings().max_examples // 6)
