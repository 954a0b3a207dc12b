"""Under LD_PRELOAD of the shim: refuse the n-th call of a kind, for every n of some work.

`python -m tests.fakes.faulty_disk_rounds SHIM FOLDER KIND SCENE STRIDE` prints a JSON object:
how many `rounds` there were, in how many the work `failed`, and in how many a kill would have shown
a version `ahead`. The first round that goes wrong ends it, with its name and its traceback.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

from store.sources import put_source_state
from tests.fakes import faulted_upkeep
from tests.fakes.faulted_batch import LIVE, Outcome, prepare, run, run_opening
from tests.fakes.faulty_io import FaultyIo
from tests.fakes.stack import Stack

FRAMES_OF_FIRST_INDEX_PART = 4062  # of the WAL: at the next, the index (-shm) grows
LONG_LOG_PAGE_BYTES = 512


def often_checkpointing(stack: Stack) -> None:
    stack.connection.execute("PRAGMA wal_autocheckpoint = 5")


def spilling(stack: Stack) -> None:
    """The page cache is so small that the statements write, not their COMMIT: also those of the
    extension and of full text."""
    stack.connection.execute("PRAGMA cache_size = 5")


def long_log(stack: Stack) -> None:
    """Fill the WAL so far that its index must grow in the batch."""
    stack.connection.execute("PRAGMA wal_autocheckpoint = 0")
    database = stack.connection.execute("PRAGMA database_list").fetchone()[2]
    log, frame = Path(f"{database}-wal"), 24 + LONG_LOG_PAGE_BYTES
    ticks = count()
    while log.stat().st_size < (FRAMES_OF_FIRST_INDEX_PART - 50) * frame:
        put_source_state(stack.connection, stack.source.id, next(ticks), None, None)


SETUPS: dict[str, Callable[[Stack], None]] = {
    "plain": lambda _: None,
    "often checkpointing": often_checkpointing,
    "spilling": spilling,
    "long log": long_log,
}


Work = Callable[[AbstractContextManager[None]], Outcome]


def work_of(scene: str, kind: str, folder: Path) -> Work:
    """What a round does under its fault."""
    own = folder / "round"
    if scene in faulted_upkeep.ACTS:
        lived = faulted_upkeep.prepare(folder, scene)
        return lambda fault: faulted_upkeep.run(lived, own, fault)
    page_bytes = LONG_LOG_PAGE_BYTES if scene == "long log" else 4096
    before = prepare(folder, page_bytes)
    if scene in ("opening", "creating"):
        new = scene == "creating"
        return lambda fault: Outcome(run_opening(before, own, fault, new=new), ahead=False)
    setup, readers_too = SETUPS[scene], kind != "read"
    return lambda fault: run(before, own, lambda _: fault, setup=setup, readers_too=readers_too)


def main(shim: Path, folder: Path, kind: str, scene: str, stride: int) -> None:
    work = work_of(scene, kind, folder)
    files = "s.db-shm" if scene == "long log" else ""
    disk = FaultyIo(shim, folder / "round" / LIVE / files)
    work(disk.refusing(kind, sys.maxsize, full=False))
    calls = disk.calls(kind)
    done: Counter[str] = Counter()
    for nth in range(1, calls + 1, stride):
        # Elsewhere than in the plain scene, the two sorts of faults take turns.
        for full in (False, True) if scene == "plain" else (done["rounds"] % 2 == 1,):
            try:
                outcome = work(disk.refusing(kind, nth, full=full))
            except Exception as error:
                error.add_note(f"{scene}: {kind} {nth} of {calls} refused, {full=}")
                raise
            assert disk.refusals, "the fault never came"
            done.update(rounds=1, failed=outcome.failed, ahead=outcome.ahead)
    print(json.dumps({"rounds": 0, "failed": 0, "ahead": 0} | done))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
