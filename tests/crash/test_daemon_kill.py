"""kill -9 of a real daemon, again and again, while its documents change.

After each kill the files it left are judged on a copy, so that the next start has to do with the
same; then that start is asked through its socket. HOPSYNCD_KILLS says how many kills there are.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hopsyncd.errors import REPORTABLE
from hopsyncd.ingest.upkeep import verify_matches
from store.check import check, refuse_damaged
from store.contract import Connection
from store.engines.sqlite.database import open_writer
from store.records import ALIVE, hash_content
from store.versions import read_head
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.kill import copy_database

KILLS = int(os.environ.get("HOPSYNCD_KILLS", "12"))
LIVES = 12  # of one home, before the next begins with nothing
NOTING = ("tests.fakes.noting_daemon",)
GROUP = 64  # passages whose questions are made together, and stored within two seconds
PEOPLE = ("Nero", "Ada", "Ibsen", "Sappho", "Basho")


class Editor:
    """Changes the documents in a folder, and knows every state that each of them ever had.

    Every change is one rename or one removal, so that no state is half of one.
    """

    def __init__(self, notes: Path, spare: Path, chance: random.Random) -> None:
        self._notes = notes
        self._spare = spare
        self._chance = chance
        self._lock = threading.Lock()
        self._texts = 0
        self.history: dict[str, list[bytes | None]] = {}
        self._put("kept.md", b"# Rome\n\nNero met Ada in Rome.\n")

    def change(self) -> None:
        """Create or edit most of the time; else rename, copy or delete."""
        here = [path for path, states in self.history.items() if states[-1] and path != "kept.md"]
        kind = self._chance.random()
        if not here or kind < 0.6:
            self._put(f"{self._chance.randrange(20)}.md", self._text())
        elif kind < 0.75:
            self._move(self._chance.choice(here), f"{self._chance.randrange(20)}.md")
        elif kind < 0.85:
            copied = self.history[self._chance.choice(here)][-1]
            assert copied is not None
            self._put(f"copy{self._chance.randrange(5)}.md", copied)
        else:
            self._remove(self._chance.choice(here))

    def now(self) -> dict[str, int]:
        """Which of its states each document has."""
        with self._lock:
            return {path: len(states) - 1 for path, states in self.history.items()}

    def _put(self, path: str, data: bytes) -> None:
        self._spare.write_bytes(data)
        with self._lock:
            self._spare.rename(self._notes / path)
            self.history.setdefault(path, [None]).append(data)

    def _move(self, path: str, to: str) -> None:
        if path == to:
            return
        with self._lock:
            (self._notes / path).rename(self._notes / to)
            self.history.setdefault(to, [None]).append(self.history[path][-1])
            self.history[path].append(None)

    def _remove(self, path: str) -> None:
        with self._lock:
            (self._notes / path).unlink()
            self.history[path].append(None)

    def _text(self) -> bytes:
        """A few new passages, now and then more than a group, among some that others have."""
        many = 45 if self._chance.random() < 0.03 else self._chance.randint(1, 2)
        lines = []
        for _ in range(many):
            self._texts += 1
            person, other = self._chance.sample(PEOPLE, 2)
            lines += [f"{person} met {other} in Rome{self._texts}.", f"{person} wrote to {other}."]
        return "\n\n".join(f"# {line}\n\n{line}" for line in lines).encode()


@dataclass(slots=True)
class User:
    """Has the daemon sync again and again, and remembers what it acknowledged.

    `since` says in which of its states each document was when the newest acknowledged sync began.
    """

    place: Place
    editor: Editor
    version: int = 0
    since: dict[str, int] = field(default_factory=dict)
    syncs: int = 0

    def sync(self) -> None:
        since = self.editor.now()
        try:
            answer = self.place.sync()
        except REPORTABLE:
            return
        assert answer["sources"][0]["problem"] is None
        self.version, self.since = answer["version"], since
        self.syncs += 1

    def judge(self, connection: Connection) -> bool:
        """Nothing acknowledged is lost, and nothing is there that never was; whether there is a
        version that was not acknowledged."""
        newest = read_head(connection)
        number = newest.id if newest else 0
        assert number >= self.version
        found = dict(connection.execute(f"SELECT path, content FROM document WHERE died = {ALIVE}"))
        for path, states in self.editor.history.items():
            allowed = states[self.since.get(path, 0) :]
            hashes = [None if data is None else hash_content(data) for data in allowed]
            assert found.pop(path, None) in hashes, path
        assert found == {}
        return number > self.version


@dataclass(slots=True)
class Bill:
    """What questions were made for, as the daemon noted it, against what is stored."""

    notes: Path
    settled: int = 0
    stored: set[str] = field(default_factory=set)

    def settle(self, connection: Connection) -> bool:
        """Check the questions after a kill: stored questions are not made again, and at most two
        groups are lost, one that was made but not stored, and the next.

        Returns whether any are lost.
        """
        lines = self.notes.read_text().split() if self.notes.exists() else []
        asked = Counter(lines[self.settled :])
        self.settled = len(lines)
        stored = _passages(connection)
        assert not self.stored & asked.keys(), "made again, though it was stored"
        assert [one for one, times in asked.items() if times > 1] == []
        assert stored == self.stored | (stored & asked.keys())
        lost = asked.keys() - stored
        assert len(lost) <= 2 * GROUP
        self.stored = stored
        return bool(lost)


def _passages(connection: Connection) -> set[str]:
    """The hashes of the texts that the passages with questions have for the encoder."""
    rows = connection.execute(
        "SELECT p.heading, p.text FROM passage AS p JOIN question_set AS s ON s.passage = p.id"
    )
    texts = (f"{' > '.join(json.loads(heading))}\n{text}" for heading, text in rows)
    return {hash_content(text.encode()).hex() for text in texts}


def live_and_be_killed(place: Place, chance: random.Random) -> None:
    """A kill while it starts or stops, or after a life up to half as long as its start took."""
    kind = chance.random()
    if kind < 0.15:
        place.launch()
        time.sleep(chance.uniform(0, 1.5))
    else:
        began_s = time.monotonic()
        place.start()
        started_s = time.monotonic()
        assert place.post("/v1/check", {"deep": True})["findings"] == []
        time.sleep(chance.uniform(0, 0.5) * (started_s - began_s))
    if kind > 0.9:
        assert place.process is not None
        place.process.terminate()
        time.sleep(chance.uniform(0, 0.2))
    place.kill()


def until(over: threading.Event, pause_s: float, act: Callable[[], None]) -> None:
    while not over.wait(pause_s):
        act()


@pytest.mark.parametrize("home", range(-(-KILLS // LIVES)))
def test_after_each_kill_of_the_daemon_all_acknowledged_changes_are_kept(
    home: int, tmp_path: Path
) -> None:
    """The kills fall at any moment of a life, and the documents change all the time."""
    chance = random.Random(home)
    with new_place(NOTING) as place, ThreadPoolExecutor() as threads:
        place.configure("[watch]\ndebounce_ms = 50\n" + source("notes", place.notes))
        editor = Editor(place.notes, place.base / "spare", random.Random(home))
        user, bill = User(place, editor), Bill(place.home / "asked")
        amid, lives = 0, min(LIVES, KILLS - home * LIVES)
        for life in range(3 * lives):
            if life >= lives and amid:
                break  # where the machine is quick, some more kills may be needed to hit the work
            over = threading.Event()
            running = [
                threads.submit(until, over, 0.04, editor.change),
                threads.submit(until, over, 0.05, user.sync),
            ]
            try:
                live_and_be_killed(place, chance)
            finally:
                over.set()
            for thread in running:
                thread.result()
            if (place.home / "data/hopsyncd.db").exists():
                copy = copy_database(place.home / "data/hopsyncd.db", tmp_path / "copy.db")
                amid += judge(copy, user, bill)
        assert user.syncs and amid, "no kill fell into the work"


def judge(path: Path, user: User, bill: Bill) -> bool:
    """Whether the kill fell into the work; all that is left is asserted to be as it should."""
    with closing(open_writer(path)) as connection:
        refuse_damaged(connection)
        assert check(connection, deep=True) == []
        assert verify_matches(connection) == []
        lost = bill.settle(connection)
        newer = user.judge(connection)
    return lost or newer


def test_a_kill_after_an_event_leaves_it_to_the_next_scan() -> None:
    with new_place(SMALL) as place:
        # The event is seen, and would be acted on after the kill.
        place.configure("[watch]\ndebounce_ms = 60000\n" + source("notes", place.notes))
        place.write("old.md", "Nero met Ada.\n")
        place.start()
        place.sync()
        place.write("new.md", "Ada met Cato.\n")
        place.until(lambda: bool(place.status()["documents"] == 2))
        place.write("new.md", "Ada met Basho.\n")
        time.sleep(0.2)
        version = place.status()["version"]
        assert "Ada met Cato." in [passage["text"] for passage in place.query("Ada")]
        place.kill()
        place.start()
        place.until(lambda: bool(place.status()["version"] > version))
        assert "Ada met Basho." in [passage["text"] for passage in place.query("Ada")]
