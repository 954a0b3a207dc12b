"""Work in a process of its own that SIGKILL ends at a chosen step, and what a torn write leaves.

The processes are forked from a server that has opened nothing, so that hundreds cost little.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from store.contract import Connection
from store.engines.sqlite.acknowledged import note_path
from store.engines.sqlite.database import FileConnection
from tests.fakes.forked import FORKS

Step = Callable[[str], None]
# What is done to a file: a function of a module, which calls Step with a name wherever it may die.
# As a trace callback of SQLite, Step is called before each statement, those inside others too.
Work = Callable[[Path, Step], None]

_TIMEOUT_S = 120.0
_ENDINGS = ("", "-wal", "-shm")


def copy_database(path: Path, target: Path) -> Path:
    """Copy a database that nobody has open, with its log and its note as a kill left them."""
    for file, copy in zip(_files_of(path), _files_of(target), strict=True):
        copy.unlink(missing_ok=True)
        if file.exists():
            shutil.copy(file, copy)
    return target


def _files_of(path: Path) -> list[Path]:
    return [*(path.with_name(path.name + end) for end in _ENDINGS), note_path(path)]


def trace(connection: Connection, step: Step) -> None:
    """Call `step` with each statement before it runs, and all the time while one vacuums."""
    running = [""]

    def statement(sql: str) -> None:
        running[0] = sql
        step(sql)

    def instruction() -> None:
        if "vacuum" in running[0].lower():
            step("vacuuming")

    assert isinstance(connection, FileConnection)
    connection.set_trace_callback(statement)
    connection.set_progress_handler(instruction, 1)


def steps_of(work: Work, path: Path) -> list[str]:
    """Let the work come to its end; the names of its steps."""
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_whole, args=(work, path, sender))
    process.start()
    sender.close()
    names: list[str] = receiver.recv()
    process.join(_TIMEOUT_S)
    assert process.exitcode == 0
    return names


def kill_at(number: int, work: Work, path: Path) -> None:
    """Kill the work when it comes to that step, counted from 0."""
    assert _ended(partial(_killed, number), work, path) == -signal.SIGKILL


def copies_at(numbers: Sequence[int], work: Work, path: Path, folder: Path) -> list[Path]:
    """What a kill at each of these rising steps would leave, from one life that ends at the last.

    A kill leaves what was written, and so does a copy; steps that leave the same share one.
    """
    receiver, sender = FORKS.Pipe(duplex=False)
    run = partial(_copied_at, numbers, folder, sender)
    process = FORKS.Process(target=run, args=(work, path))
    process.start()
    sender.close()
    names: list[str] = receiver.recv()
    process.join(_TIMEOUT_S)
    assert process.exitcode == -signal.SIGKILL
    return [folder / name / path.name for name in names]


def torn_writes(
    work: Work, path: Path, between: tuple[int, int], parts: int, ending: str = "-wal"
) -> Iterator[float]:
    """Leave the file at `path` as kills amid the writes between two steps do, one after the other.

    A transaction is written to the log, from its front to its back, before the log's index or the
    file know of it. So a kill leaves these two as before, and a log whose first part is new. With
    the ending "" it is the file that is written, from a log that stays. Yields how large the new
    part is: from 0 to 1, in so many parts.
    """
    before, after = path.parent / "before", path.parent / "after"
    assert _ended(partial(_copied, between, (before, after)), work, path) == 0
    torn = path.name + ending
    old = (before / torn).read_bytes() if (before / torn).exists() else b""
    new = (after / torn).read_bytes()
    first = next(
        index for index in range(len(new)) if old[index : index + 1] != new[index : index + 1]
    )
    for part in range(parts + 1):
        at = first + (len(new) - first) * part // parts
        copy_database(before / path.name, path)
        path.with_name(torn).write_bytes(new[:at] + old[at:])
        yield part / parts
    shutil.rmtree(before)
    shutil.rmtree(after)


def _ended(run: Callable[[Work, Path], None], work: Work, path: Path) -> int | None:
    process = FORKS.Process(target=run, args=(work, path))
    process.start()
    process.join(_TIMEOUT_S)
    return process.exitcode


def _whole(work: Work, path: Path, sender: Pipe) -> None:
    names: list[str] = []
    work(path, names.append)
    sender.send(names)


def _numbered(act: Callable[[int], None]) -> Step:
    numbers = iter(range(1_000_000))
    return lambda _: act(next(numbers))


def _killed(number: int, work: Work, path: Path) -> None:
    def act(at: int) -> None:
        if at == number:
            os.kill(os.getpid(), signal.SIGKILL)

    work(path, _numbered(act))


def _copied_at(numbers: Sequence[int], folder: Path, sender: Pipe, work: Work, path: Path) -> None:
    known: dict[bytes, str] = {}
    names: list[str] = []

    def act(at: int) -> None:
        if at not in wanted:
            return
        digest = sha256()
        for file in _files_of(path):
            digest.update(sha256(file.read_bytes() if file.exists() else b"").digest())
        name = known.setdefault(digest.digest(), str(len(known)))
        if not (folder / name).exists():
            (folder / name).mkdir()
            copy_database(path, folder / name / path.name)
        names.append(name)
        if at == numbers[-1]:
            sender.send(names)
            os.kill(os.getpid(), signal.SIGKILL)

    wanted = frozenset(numbers)
    work(path, _numbered(act))


def _copied(between: tuple[int, int], folders: tuple[Path, Path], work: Work, path: Path) -> None:
    def act(at: int) -> None:
        for number, folder in zip(between, folders, strict=True):
            if at == number:
                folder.mkdir()
                copy_database(path, folder / path.name)
        if at == between[1]:
            os._exit(0)

    work(path, _numbered(act))
