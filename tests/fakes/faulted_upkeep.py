"""gc, purge, rebuild and backup under a fault, and all that must hold after it."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from hopsyncd.ingest.upkeep import verify_matches
from hopsyncd.ingest.version_writer import VersionWriter
from store.check import check
from store.contract import Connection
from store.engines.sqlite.database import open_reader, open_writer
from store.exceptions import BackupFailed, DiskFailure, NotAcknowledged, StoreError
from store.gc import Retention, collect
from store.purge import purge, request_purge
from store.space import copy_to_file
from store.transactions import snapshot
from store.versions import list_kept_versions
from tests.fakes.dump import Rows, graph_at
from tests.fakes.faulted_batch import LIVE, Outcome
from tests.fakes.lived import lived
from tests.fakes.stack import fake_maker
from tests.fakes.unused_bytes import fill_gaps

NOW_MS = 10_000_000_000
KEEP = Retention(keep_versions=2, keep_days=0)
BACKUP = "copy.db"

Graphs = dict[int, Rows]


def _backup(connection: Connection) -> None:
    database = Path(connection.execute("PRAGMA database_list").fetchone()[2])
    copy_to_file(connection, database.with_name(BACKUP))


def _rebuild(connection: Connection) -> None:
    VersionWriter(
        connection, fake_maker(), rules="", budget_factor=0.3, now_ms=lambda: NOW_MS
    ).rebuild()


ACTS: dict[str, Callable[[Connection], object]] = {
    "gc": lambda connection: collect(connection, KEEP, NOW_MS),
    # It was in version 3 and is in the head no more.
    "purge": lambda connection: purge(connection, request_purge(connection, 1, "copy.md", NOW_MS)),
    "rebuild": _rebuild,
    "backup": _backup,
}


@dataclass(frozen=True, slots=True)
class Before:
    """A closed database, how its kept versions read, and how they do when the act is done."""

    folder: Path
    act: str
    graphs: Graphs
    done: Graphs


def prepare(folder: Path, act: str) -> Before:
    """Make the database, and learn from an undisturbed run what the act makes of it."""
    made = folder / "before"
    made.mkdir()
    with closing(lived(made / "s.db")) as stack:
        graphs = _graphs(stack.connection)
    fill_gaps(made / "s.db", b"something deleted ")
    shutil.copytree(made, folder / "undisturbed")
    with closing(open_writer(folder / "undisturbed/s.db")) as connection:
        ACTS[act](connection)
        done = _graphs(connection)
    assert (done == graphs) == (act == "backup")
    return Before(made, act, graphs, done)


def run(before: Before, folder: Path, fault: AbstractContextManager[None]) -> Outcome:
    """Act under the fault, then without it.

    After the fault each version that is kept reads as before or as it will, and the database is
    sound; the second time the act does what it would have done at once, if it is not done already.
    """
    live = folder / LIVE
    shutil.copytree(before.folder, live)
    act = ACTS[before.act]
    with (
        closing(open_writer(live / "s.db")) as connection,
        closing(open_reader(live / "s.db")) as reader,
    ):
        with fault:
            error = _error_of(act, connection)
        for number, graph in _graphs(reader).items():
            assert graph in (before.graphs.get(number), before.done.get(number)), number
        assert check(reader, deep=True) == []
        assert verify_matches(reader) == []
        if error:
            assert {file.name for file in live.iterdir()} == {
                "s.db",
                "s.db-wal",
                "s.db-shm",
                "s.head",
            }
            if isinstance(error, NotAcknowledged) and _graphs(connection) == before.done:
                connection.acknowledge()  # it is done, and nobody was told so
            else:
                act(connection)
        assert _graphs(connection) == before.done
        if before.act == "backup":
            with closing(open_reader(live / BACKUP)) as copy:
                assert check(copy, deep=True) == []
                assert _graphs(copy) == before.graphs
    shutil.rmtree(folder)
    return Outcome(error is not None, ahead=False)


def _error_of(act: Callable[[Connection], object], connection: Connection) -> StoreError | None:
    try:
        act(connection)
    except (BackupFailed, DiskFailure, NotAcknowledged) as error:
        return error
    return None


def _graphs(connection: Connection) -> Graphs:
    with snapshot(connection):
        return {number: graph_at(connection, number) for number in list_kept_versions(connection)}
