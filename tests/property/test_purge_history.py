"""A purge after any history: what is left is what was there, and sound."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.ingest.read import Batch
from hopsyncd.ingest.upkeep import verify_matches
from store.check import check
from store.gc import Retention, collect
from store.history import set_tag
from store.purge import purge, request_purge
from tests.fakes.dump import graphs
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

NOW_MS = 10_000_000_000
# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

paths = st.sampled_from(["a.md", "b.md", "c.md"])
words = st.sampled_from(
    ["Rome met Ada.", "Ada wrote X1.", "X1 ran in Paris. Ada met Paris.", "..."]
)
documents = st.lists(words, min_size=1, max_size=3).map(lambda some: "\n\n".join(some).encode())
changes = st.tuples(paths, st.none() | documents)


@settings(max_examples=settings().max_examples // 3)
@given(
    history=st.lists(st.lists(changes, min_size=1, max_size=2), min_size=1, max_size=7),
    kept=st.integers(1, 8),
    factor=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
)
def test_after_any_purge_the_other_rows_are_sound_and_unchanged(
    history: list[list[tuple[str, bytes | None]]], kept: int, factor: float
) -> None:
    """Also after a gc, and whatever the budget: other documents and their edges stay."""
    with TemporaryDirectory(dir=MEMORY) as folder:
        files = MemoryConnector({"a.md": b"Rome met Ada.", "z.md": b"Rome met Paris. X1 ran."})
        stack = Stack(Path(folder) / "s.db", files, budget_factor=factor)
        stack.sync()
        set_tag(stack.connection, "first", 1, 0)
        for change in history:
            for path, data in change:
                if data is not None:
                    files.put(path, data)
                elif path in files.files:
                    files.remove(path)
            stack.sync()
        collect(stack.connection, Retention(kept, 0), NOW_MS)
        before = graphs(stack.connection)
        stack.writer.apply(Batch("purge of a.md", gone=((stack.source.id, "a.md"),)))
        purge(stack.connection, request_purge(stack.connection, stack.source.id, "a.md", NOW_MS))
        after = graphs(stack.connection)
        for number, was in before.items():
            now = after[number]
            left = {row[0] for row in now["questions"]}
            assert now["documents"] == [row for row in was["documents"] if row[1] != "a.md"]
            assert now["placements"] == [row for row in was["placements"] if row[0] != "a.md"]
            held = {row[2] for row in now["placements"]}
            assert now["passages"] == [row for row in was["passages"] if row[0] in held]
            for rows in ("matches", "edges"):
                assert now[rows] == [row for row in was[rows] if {row[0], row[1]} <= left]
        assert check(stack.connection, deep=True) == []
        assert verify_matches(stack.connection) == []
        stack.close()
