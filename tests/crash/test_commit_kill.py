"""kill -9 while versions are made: what was acknowledged is there, whole, and paid for once."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from hopsyncd.sync.verify import verify_matches
from store.check import check
from store.content import counters
from store.database import open_writer
from store.versions import head

ROOT = Path(__file__).parents[2]
SEED = 23
KILLS = int(os.environ.get("HOPSYNCD_KILLS", "12"))
CHILD = """
import itertools, random, sys
from pathlib import Path
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack
path, seed = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
files = MemoryConnector()
stack = Stack(path, files, batch_documents=3)
for step in itertools.count():
    for _ in range(chance.randint(1, 6)):
        number = chance.randint(0, 30)
        many = chance.randint(1, 9)
        lines = (f"Rome{n} met Nero{n % 5} near Tiber{number}." for n in range(many))
        files.put(f"{number}.md", "\\n\\n".join(lines).encode())
    if chance.random() < 0.4 and files.files:
        files.remove(chance.choice(sorted(files.files)))
    stack.sync(accept_empty=True)
    print(stack.head.id, flush=True)
"""


def start(path: Path, seed: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_after_each_kill_the_acknowledged_version_is_there_and_whole(tmp_path: Path) -> None:
    """The same database is killed again and again; each life begins with what the last one left."""
    chance = random.Random(SEED)
    path = tmp_path / "s.db"
    grown = 0
    for kill in range(KILLS):
        child = start(path, kill)
        assert child.stdout is not None
        first = int(child.stdout.readline())
        time.sleep(chance.uniform(0, 0.6))
        child.kill()
        acknowledged = [first, *map(int, child.communicate(timeout=60)[0].split())][-1]
        connection = open_writer(path)
        newest = head(connection)
        assert newest is not None and newest.id >= acknowledged
        assert check(connection, deep=True) == []
        assert verify_matches(connection) == []
        sets = connection.execute("SELECT count(*) FROM question_set").fetchone()[0]
        assert counters(connection)["passages_generated"] == sets, "nothing was paid for twice"
        grown += newest.id > first
        connection.close()
    assert grown, "no kill fell into the work"
