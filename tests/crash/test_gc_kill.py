"""kill -9 while gc works: every kept version reads as before, and the next gc finishes the job."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from store.check import check
from store.database import Connection, open_writer
from store.gc import Retention, collect, plan_gc
from store.history import set_tag
from store.versions import kept_versions
from tests.fakes.dump import Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROOT = Path(__file__).parents[2]
SEED, KILLS = 17, 10
VERSIONS, TAGGED = 40, 7
NOW_MS = 10_000_000_000
KEEP = Retention(keep_versions=3, keep_days=0)
CHILD = f"""
import sys, time
from pathlib import Path
import store.gc
from store.database import open_writer
store.gc._ROWS, store.gc._ENTRIES = 40, 4  # many transactions
connection = open_writer(Path(sys.argv[1]))
print("ready", flush=True)
began = time.monotonic()
store.gc.collect(connection, store.gc.{KEEP!r}, {NOW_MS})
print(time.monotonic() - began, flush=True)
"""


def graphs(connection: Connection, numbers: list[int]) -> dict[int, Rows]:
    return {number: graph_at(connection, number) for number in numbers}


def history(path: Path) -> tuple[list[int], dict[int, Rows]]:
    """A database of edits; returns the versions that are to be kept, and their graphs."""
    files = MemoryConnector()
    stack = Stack(path, files)
    for number in range(1, VERSIONS + 1):
        lines = (f"Rome{n} met Nero{number if n % 3 else n}." for n in range(30))
        files.put("notes.md", "\n\n".join(lines).encode())
        stack.sync()
    set_tag(stack.connection, "mine", TAGGED, 0)
    kept = [TAGGED, *range(VERSIONS - 2, VERSIONS + 1)]
    before = graphs(stack.connection, kept)
    stack.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stack.close()
    return kept, before


def start(path: Path) -> "subprocess.Popen[str]":
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def test_after_each_kill_the_kept_versions_read_as_before(tmp_path: Path) -> None:
    made = tmp_path / "made.db"
    kept, before = history(made)
    whole = shutil.copy(made, tmp_path / "whole.db")
    took_s = float(start(whole).communicate(timeout=60)[0])
    chance = random.Random(SEED)
    killed_amid = 0
    for kill in range(KILLS):
        path = Path(shutil.copy(made, tmp_path / f"{kill}.db"))
        child = start(path)
        time.sleep(chance.uniform(0, took_s))
        child.kill()
        child.communicate(timeout=60)
        connection = open_writer(path)
        assert graphs(connection, kept) == before
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        plan = plan_gc(connection, KEEP, NOW_MS)
        killed_amid += plan.lives > 0
        assert collect(connection, KEEP, NOW_MS).lives == plan.lives
        assert kept_versions(connection) == kept
        assert graphs(connection, kept) == before
        assert check(connection, deep=True) == []
        connection.close()
    assert killed_amid, "no kill fell into the work"
