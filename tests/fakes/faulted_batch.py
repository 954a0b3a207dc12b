"""One batch of edits under a fault, and all that must hold during the fault and after it."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from hopsyncd.ingest.upkeep import verify_matches
from store.check import check
from store.content import read_counters
from store.contract import Connection
from store.engines.sqlite.database import SqliteError, open_file, open_reader, open_writer
from store.exceptions import DiskFailure, StoreError
from store.transactions import snapshot
from store.versions import read_head
from tests.fakes.dump import Rows, graph_at
from tests.fakes.lived import page
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

LIVE = "live"  # the folder in a round's own whose files the fault is about

Fault = Callable[[Connection], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Before:
    """A closed database before the batch, and how every version up to the batch's last reads."""

    folder: Path
    head: int
    graphs: dict[int, Rows]

    @property
    def last(self) -> int:
        return max(self.graphs)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the sync under the fault failed, and whether a kill then would have shown a version
    whose commit was reported as failed."""

    failed: bool
    ahead: bool


def files_before() -> MemoryConnector:
    return MemoryConnector(
        {
            "rome.md": page("Rome", "Oslo", "Lima"),
            "oslo.md": page("Oslo", "Rome", "Cairo"),
            "lima.md": page("Lima", "Rome", "Oslo"),
        }
    )


def edit(files: MemoryConnector) -> None:
    """Two versions: an edit with a new document, then a rename with a removal."""
    files.put("oslo.md", page("Oslo", "Delhi", "Rome") + b"Oslo was Kristiania.\n")
    files.put("cairo.md", page("Cairo", "Rome", "Delhi"))
    files.move("rome.md", "roma.md")
    files.remove("lima.md")


def open_stack(folder: Path, files: MemoryConnector) -> Stack:
    return Stack(folder / "s.db", files, batch_documents=2, budget_factor=0.5)


def prepare(folder: Path, page_bytes: int = 4096) -> Before:
    """Make the database, and learn from an undisturbed run what the batch makes of it."""
    made = folder / "before"
    made.mkdir()
    (made / "s.db").touch()
    with closing(open_file(made / "s.db")) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    with closing(open_stack(made, files_before())) as stack:
        stack.sync()
        first = stack.head.id
    shutil.copytree(made, folder / "undisturbed")
    files = files_before()
    with closing(open_stack(folder / "undisturbed", files)) as stack:
        edit(files)
        stack.sync()
        last = stack.head.id
        graphs = {number: graph_at(stack.connection, number) for number in range(1, last + 1)}
    assert last == first + 2
    return Before(made, first, graphs)


def run(
    before: Before,
    folder: Path,
    fault: Fault,
    *,
    setup: Callable[[Stack], None] = lambda _: None,
    readers_too: bool = True,
) -> Outcome:
    """Sync the edits under the fault, then without it.

    Under the fault every reader has whole versions, the newest being the last that was committed;
    so has who finds the files as a kill leaves them. Without it the same write path does the rest,
    and makes no question again that was stored. `readers_too` says that they can read meanwhile.
    """
    live = folder / LIVE
    shutil.copytree(before.folder, live)
    files = files_before()
    with closing(open_stack(live, files)) as stack, closing(open_reader(live / "s.db")) as reader:
        stack.sync()
        setup(stack)
        edit(files)
        with fault(stack.connection):
            error = _error_of(stack)
            if readers_too:
                _require_reads(before, live, reader)
        reached = _require_reads(before, live, reader)
        assert reached == before.last or error
        told = max([before.head, *(version.id for version in stack.versions)])
        # A COMMIT that was interrupted can be done all the same: the worker then begins anew.
        assert told == reached or (told < reached and not isinstance(error, DiskFailure))
        ahead = _head_after_a_kill(before, live, folder / "killed") - reached
        assert ahead in (0, 1)
        stored, made = _stored(reader), len(stack.made)
        stack.sync()
        _require_done(before, stack)
        assert not stored & set(stack.made[made:]), "questions were made again"
    shutil.rmtree(folder)
    return Outcome(error is not None, ahead == 1)


def run_opening(
    before: Before, folder: Path, fault: AbstractContextManager[None], *, new: bool
) -> bool:
    """Open or, `new`, create the database under the fault, then without; whether the first failed.

    The second finds or makes what the undisturbed run had.
    """
    live = folder / LIVE
    if new:
        live.mkdir(parents=True)
    else:
        shutil.copytree(before.folder, live)
    stack = None
    with fault, suppress(SqliteError, StoreError):
        stack = open_stack(live, files_before())
    failed = stack is None
    if stack:
        stack.close()
    files = files_before()
    with closing(open_stack(live, files)) as stack:
        stack.sync()
        edit(files)
        stack.sync()
        _require_done(before, stack)
    shutil.rmtree(folder)
    return failed


def _error_of(stack: Stack) -> Exception | None:
    try:
        stack.sync()
    except (SqliteError, StoreError) as error:
        return error
    return None


def _require_reads(before: Before, live: Path, reader: Connection) -> int:
    """An old reader and a new one have the same whole versions; returns the newest."""
    with closing(open_reader(live / "s.db")) as newcomer:
        assert _head(reader) == _head(newcomer)
        for connection in (reader, newcomer):
            _require_versions(before, connection)
        return _head(newcomer)


def _head(connection: Connection) -> int:
    newest = read_head(connection)
    assert newest is not None
    return newest.id


def _stored(connection: Connection) -> set[int]:
    return {row[0] for row in connection.execute("SELECT passage FROM question_set")}


def _require_versions(before: Before, connection: Connection) -> None:
    with snapshot(connection):
        for number in range(1, _head(connection) + 1):
            assert graph_at(connection, number) == before.graphs[number], f"version {number}"


def _require_done(before: Before, stack: Stack) -> None:
    assert stack.head.id == before.last
    _require_versions(before, stack.connection)
    assert check(stack.connection, deep=True) == []
    assert verify_matches(stack.connection) == []
    made = read_counters(stack.connection)["passages_generated"]
    assert made == len(_stored(stack.connection))


def _head_after_a_kill(before: Before, live: Path, killed: Path) -> int:
    """The newest version that the files, as they are, have for who opens them; all are whole."""
    shutil.copytree(live, killed)
    with closing(open_writer(killed / "s.db")) as connection:
        _require_versions(before, connection)
        return _head(connection)
