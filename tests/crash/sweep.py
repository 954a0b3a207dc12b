"""Killing some work at each of its steps, and judging what is left."""

import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from hopsyncd.ingest.removal import finish_purges
from hopsyncd.ingest.upkeep import verify_matches
from store.check import check, refuse_damaged
from store.contract import Connection
from store.engines.sqlite.database import open_writer
from store.purge import list_pending_purges
from store.versions import list_kept_versions
from tests.fakes.dump import Rows, graph_at
from tests.fakes.kill import Work, copies_at, copy_database, kill_at, steps_of
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

KILLS = 4  # of a sweep that are real
_PURGES_KILLED = 12
Graphs = dict[int, Rows]


@dataclass(frozen=True, slots=True)
class Left:
    """What a kill left, and what the next life did to come to the end: its steps."""

    graphs: Graphs
    next_steps: tuple[str, ...]

    @property
    def head(self) -> int:
        return max(self.graphs)

    @property
    def asked(self) -> int:
        """For how many passages the next life had questions made."""
        return self.next_steps.count("made")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A database, work on it with its steps, and the graphs of its versions before and after.

    The work done once more, in a next life, must come to the same end wherever it was cut short.
    """

    base: Path
    work: Work
    steps: tuple[str, ...]
    before: Graphs
    after: Graphs
    _judged: dict[bytes, Left] = field(default_factory=dict)

    def kills(self, folder: Path, numbers: Iterable[int]) -> list[Left]:
        """Kill the work at each of these steps, each time from the start.

        All but a few kills are copies of the files at that step.
        """
        steps, path = [*numbers], folder / "killed.db"
        with TemporaryDirectory(dir=folder) as room:
            copies = copies_at(steps, self.work, copy_database(self.base, path), Path(room))
            judged = {copy: self.judge(copy) for copy in dict.fromkeys(copies)}
        for index in range(0, len(steps), len(steps) // KILLS + 1):
            kill_at(steps[index], self.work, copy_database(self.base, path))
            assert self.judge(path) == judged[copies[index]]
        return [judged[copy] for copy in copies]

    def judge(self, path: Path) -> Left:
        """What is left at `path`, asserted to be whole, and to be finished by a next life.

        A state that was judged already is opened, and not judged again.
        """
        state = state_of(path)
        if state in self._judged:
            with closing(open_writer(path)) as connection:
                assert list_kept_versions(connection) == [*self._judged[state].graphs]
        else:
            graphs = sound(path)
            names: list[str] = []
            self.work(path, names.append)
            assert sound(path) == self.after
            self._judged[state] = Left(graphs, tuple(names))
        return self._judged[state]

    def places(self, vacuuming: int) -> list[int]:
        """All steps, but of those inside a vacuum only so many, evenly spread."""
        inside = [number for number, name in enumerate(self.steps) if name == "vacuuming"]
        chosen = {*inside[:: len(inside) // vacuuming + 1]}
        return [n for n, name in enumerate(self.steps) if name != "vacuuming" or n in chosen]

    def find(self, start: str, since: int = 0) -> int:
        """The first step whose name begins so."""
        steps = range(since, len(self.steps))
        return next(number for number in steps if self.steps[number].startswith(start))

    def find_last(self, start: str, until: int) -> int:
        """The last step before `until` whose name begins so."""
        return max(number for number in range(until) if self.steps[number].startswith(start))


def sweep(base: Path, work: Work, folder: Path) -> Sweep:
    """Do the work once, on a copy, to learn its steps and its end."""
    path = copy_database(base, folder / "unbroken.db")
    before = sound(path)
    steps = tuple(steps_of(work, path))
    return Sweep(base, work, steps, before, sound(path))


def sound(path: Path) -> Graphs:
    """Open as the next start does; the graphs of the kept versions. All must be as it should."""
    with closing(open_writer(path)) as connection:
        refuse_damaged(connection)
        assert check(connection, deep=True) == []
        assert verify_matches(connection) == []
        return graphs_of(connection)


def graphs_of(connection: Connection) -> Graphs:
    return {number: graph_at(connection, number) for number in list_kept_versions(connection)}


def state_of(path: Path) -> bytes:
    """A digest of the file and of its log's frames, without the random salts of these."""
    digest = sha256(path.read_bytes())
    log = path.with_name(path.name + "-wal")
    data = log.read_bytes() if log.exists() else b""
    if data:
        size, salt = struct.unpack_from(">I", data, 8)[0] + 24, data[16:24]
        for start in range(32, len(data) - size + 1, size):
            if data[start + 8 : start + 16] == salt:
                digest.update(data[start : start + 8] + data[start + 24 : start + size])
    return digest.digest()


def killed_once_asked(whole: Sweep, folder: Path) -> Iterator[Path]:
    """Databases whose purge was killed, at some steps after it was noted as asked for."""
    asked = whole.find("COMMIT", whole.find("INSERT INTO purging")) + 1
    steps = range(asked, len(whole.steps))
    for step in steps[:: len(steps) // _PURGES_KILLED]:
        path = copy_database(whole.base, folder / "killed.db")
        kill_at(step, whole.work, path)
        yield path


def finish(path: Path) -> None:
    """Go on with purges as a start does, which nobody asks."""
    stack = Stack(path, MemoryConnector())
    finish_purges(stack.path)
    assert list_pending_purges(stack.connection) == []
    stack.close()
