"""Watched questions over a stack: versions come one by one, and each is compared at once."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hopsyncd.api.access_rules import Access, AccessRules, Caller
from hopsyncd.api.tokens import Tokens, TokenUses
from hopsyncd.api.watch_delivery import WatchActions
from hopsyncd.api.watch_rights import Makers, encode_login
from hopsyncd.api.watched_questions import WatchedQuestions
from hopsyncd.client.trust import Credentials
from hopsyncd.config.values import Search
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.operational import Watch, list_notifications
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

TOWNS = ["Lisbon", "Cork", "Riga", "Graz", "Split", "Gent", "Turku", "Bergen", "Porto", "Vigo"]
NAMES = [f"{first}{last}" for first in ("Ada", "Mira", "Tove", "Olaf", "Nils", "Vera")
         for last in ("berg", "lund", "holm", "dahl", "vik")]  # fmt: skip
DEEDS = ["paints", "repairs clocks", "bakes bread", "sails", "builds organs", "keeps bees"]

ACCESS = Access(lambda: AccessRules({}))
OWNER = Caller("owner", "owner", EVERYTHING, Credentials(os.geteuid()))


def fact(drawn: random.Random) -> bytes:
    """A short document about a person in a town."""
    name, other = drawn.sample(NAMES, 2)
    town, deed = drawn.choice(TOWNS), drawn.choice(DEEDS)
    return f"# {name}\n\n{name} {deed} in {town}. {name} met {other} there.\n".encode()


class Inline:
    """Does what is submitted at once, on the caller's thread."""

    is_following = False

    def __init__(self, stack: Stack) -> None:
        self._path = SimpleNamespace(connection=stack.connection)
        self._lock = threading.RLock()

    def submit(self, job: Callable[[Any], Any]) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            with self._lock:
                done.set_result(job(self._path))
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error)
        return done


class Watching:
    """A stack whose watched questions are compared by `sync`."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.connector = MemoryConnector(files)
        self.stack = Stack(folder / "s.db", self.connector, passage_tokens=200)
        self.stack.sync()
        encoder = FakeEncoder()
        self.engine = Engine(folder / "s.db", encoder, WalkSettings())
        self.asker = Asker(self.engine, encoder, FakeLanguage())
        self._database = folder / "s.db"
        self.actions_file = folder / "watch_actions.json"
        self.tokens_file = folder / "tokens.json"
        self.meanwhile: Callable[[], object] = lambda: None  # whenever a question is asked
        self.publish()
        self.restart()

    def restart(self) -> None:
        """As after a kill: nothing is known but what is stored."""
        self.watched = WatchedQuestions(
            self._database,
            self._parts,
            Inline(self.stack),  # type: ignore[arg-type]
            lambda: 1,
            Makers(ACCESS, Tokens(self.tokens_file, TokenUses(self.tokens_file))),
            WatchActions(self.actions_file),
        )

    def _parts(self) -> tuple[Engine, Asker]:
        self.meanwhile()
        return self.engine, self.asker

    def publish(self) -> None:
        self.engine.publish(self.stack.writer.make_snapshot(self.stack.head))

    def sync(self) -> None:
        self.stack.sync()
        self.publish()
        self.compare()

    def compare(self) -> None:
        """Compare, and wait until what is due was delivered."""
        self.watched.compare()
        end_s = time.monotonic() + 30
        while self.watched.delivery.running and time.monotonic() < end_s:
            time.sleep(0.002)

    def differs(self, question: str, old: int, new: int) -> bool:
        """Whether the two versions, asked alone, answer differently or by other passages."""
        states = []
        for version in (old, new):
            found, reply = self.asker.ask(question, 8, Search("hop"), str(version))
            assert found
            first = {hit.passage for hit in found.ranked[:5]}
            states.append((first, reply.text if reply.found else None))
        return states[0] != states[1]

    def told(self, number: int) -> list[tuple[int, int]]:
        """The versions between which changes were told, the oldest first."""
        told = list_notifications(self.stack.connection, number, 100)
        return [(one.old, one.new) for one in reversed(told)]

    def edits(self, count: int, seed: int) -> Iterator[None]:
        """Random edits, each a version that was compared."""
        drawn = random.Random(seed)
        for _ in range(count):
            paths = sorted(self.connector.files)
            kind = drawn.random()
            if kind < 0.3 or len(paths) < 3:
                self.connector.put(f"{drawn.randrange(10**6)}.md", fact(drawn))
            elif kind < 0.6:
                self.connector.put(drawn.choice(paths), fact(drawn))
            elif kind < 0.8:
                self.connector.remove(drawn.choice(paths))
            else:
                path = drawn.choice(paths)
                self.connector.put(f"moved/{drawn.randrange(10**6)}.md", self.connector.files[path])
                self.connector.remove(path)
            self.sync()
            yield


class FakeMakers(Makers):
    """The users by their logins. A user without an entry may not watch any more."""

    def __init__(self, *callers: Caller) -> None:
        self.callers = {encode_login(caller): caller for caller in callers}

    def find(self, watch: Watch) -> Caller | None:
        return self.callers.get(watch.login)


def member(name: str, acl: Acl, token: str = "") -> Caller:
    """A user with the role write, who has a token."""
    return Caller(name, "write", acl, Credentials(holder=name, token=token or name))
