"""After any history of inserts, updates and deletes, erasing leaves nothing of deleted rows.

The rows are in tables of all shapes, in a database of hopsyncd's own; each text says whose it is in
any few bytes of it.
"""

import os
import random
import re
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from store.contract import Connection
from store.engines.sqlite.database import open_reader, open_writer
from store.engines.sqlite.space import erase, scrub
from store.transactions import transaction
from tests.fakes.unused_bytes import fill_gaps, left_in_unused

# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
TABLES = {
    "by_number": "(id INTEGER PRIMARY KEY, name TEXT, text TEXT) STRICT",
    "by_name": "(id INTEGER, name TEXT PRIMARY KEY, text TEXT) STRICT, WITHOUT ROWID",
    "indexed": "(id INTEGER, name TEXT UNIQUE, text TEXT) STRICT",
}
PLANTED = b"planted."


class Rows:
    """The tables, what they have, and what they had."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self.connection = connection
        self.chance = random.Random(seed)
        self.next = 100_000
        self.live: dict[int, str] = {}
        self.gone: set[int] = set()
        with transaction(connection):
            for table, columns in TABLES.items():
                connection.execute(f"CREATE TABLE {table} {columns}")

    def text(self, id_: int, most: int) -> str:
        length = self.chance.choice((1, 5, 30, 200, most))
        return f"<{id_}>" * self.chance.randint(1, length)

    def insert(self) -> None:
        id_, self.next = self.next, self.next + 1
        table = self.live[id_] = self.chance.choice([*TABLES])
        # Names in no order, and long ones: indexes have splits and overflow pages too.
        name = f"{self.chance.random()}{self.text(id_, 1500)}"
        row = [id_, name, self.text(id_, 3000)]
        self.connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)

    def delete(self) -> None:
        id_ = self.chance.choice([*self.live])
        self.connection.execute(f"DELETE FROM {self.live.pop(id_)} WHERE id = ?", [id_])
        self.gone.add(id_)

    def update(self) -> None:
        """The text of a row becomes longer or shorter."""
        id_ = self.chance.choice([*self.live])
        self.connection.execute(
            f"UPDATE {self.live[id_]} SET text = ? WHERE id = ?", [self.text(id_, 3000), id_]
        )

    def change(self, times: int, deletions: float) -> None:
        with transaction(self.connection):
            for _ in range(times):
                if not self.live or self.chance.random() > deletions + 0.2:
                    self.insert()
                else:
                    (self.delete if self.chance.random() < deletions else self.update)()

    def delete_most(self) -> None:
        with transaction(self.connection):
            for _ in range(len(self.live) * 2 // 3):
                self.delete()

    def found(self, path: Path) -> set[int]:
        """The rows of which some bytes are in the database's files."""
        files = [file.read_bytes() for file in path.parent.glob(path.name + "*")]
        assert not any(PLANTED in data for data in files)
        return {int(id_) for data in files for id_ in re.findall(rb"<(\d{6})>", data)}


@settings(max_examples=max(settings().max_examples // 5, 10))
@given(
    seed=st.integers(0, 2**32),
    rounds=st.lists(st.floats(0, 0.9), min_size=1, max_size=4),
    pages_at_once=st.integers(1, 60),
    edits=st.integers(0, 30),
    is_read=st.booleans(),
)
def test_no_byte_of_a_deleted_row_is_left_despite_concurrent_writes(
    seed: int, rounds: list[float], pages_at_once: int, edits: int, is_read: bool
) -> None:
    with TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "s.db"
        with closing(open_writer(path)) as connection:
            rows = Rows(connection, seed)
            for deletions in rounds:
                rows.change(300, deletions)
            rows.delete_most()
        fill_gaps(path, PLANTED)  # what SQLite itself leaves there is rare
        gone = frozenset(rows.gone)
        with closing(open_writer(path)) as connection, closing(open_reader(path)) as reader:
            rows.connection = connection

            def between() -> None:
                rows.change(edits, 0.4)
                if is_read:
                    reader.execute("SELECT sum(length(text)) FROM by_number").fetchall()

            assert scrub(connection, between, pages_at_once)
            assert not rows.found(path) & gone
            # What the writer keeps in memory brings nothing back.
            rows.change(300, 0.5)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            assert not rows.found(path) & gone
            assert erase(connection, lambda: None)
            assert not rows.found(path) & rows.gone
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert left_in_unused(path) == {}
