"""Query workers, and the process that they answer for."""

import time
from collections.abc import Callable
from pathlib import Path

from hopsyncd.api.query_process import AskMessage, QueryMessage, Wanted, WorkerSettings
from hopsyncd.api.query_workers import QueryWorkers
from hopsyncd.config.values import Search
from hopsyncd.responses.results import AskAnswer, QueryAnswer
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import format_reply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.results import format_answer
from hopsyncd.retrieve.visible_sources import Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.visibility import Mask
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nRome lies on the Tiber. Caesar ruled in Rome.\n"
PARIS = b"# Paris\n\nParis lies on the Seine. Caesar called it Lutetia.\n"
QUESTION = "What did Caesar call Paris?"
HOP = Search("hop")
NOBODY: frozenset[str] = frozenset()
HIDDEN = frozenset({"notes"})


class Desk:
    """A daemon's side: queries go to one worker where it can answer, else they are counted."""

    def __init__(self, folder: Path, idle_s: float = 600.0) -> None:
        self.files = MemoryConnector({"rome.md": ROME, "paris.md": PARIS})
        self.stack = Stack(folder / "s.db", self.files)
        self.engine = Engine(folder / "s.db", FakeEncoder(), WalkSettings())
        settings = WorkerSettings(folder / "s.db", folder / "index", 1.0)
        self.workers = QueryWorkers(settings, 1, 20.0, idle_s)
        self.here = 0
        self.question = QUESTION
        self.wanted: list[Wanted] = []  # by workers, of the models
        self.has_models = True
        self.sync()

    def sync(self) -> None:
        self.stack.sync()
        self.engine.publish(self.stack.writer.make_snapshot(self.stack.head))

    def alone(self, at: int = 0, search: Search = HOP, hidden: Mask | Acl = NOBODY) -> QueryAnswer:
        """What this process answers."""
        at = at or self.stack.head.id
        return format_answer(
            self.engine.query(self.question, 5, search, str(at), hidden=hidden),
            search,
            Understood(self.question),
        )

    def ask(
        self,
        at: int = 0,
        search: Search = HOP,
        hidden: Mask | Acl = NOBODY,
        before: Callable[[], object] = lambda: None,
    ) -> QueryAnswer:
        """What the workers answer, or this process in their place."""
        at = at or self.stack.head.id

        def here() -> QueryAnswer:
            self.here += 1
            return self.alone(at, search, hidden)

        before()
        return self.workers.answer(at, self.message(at, search, hidden), self.given, here)

    def reply_alone(self) -> AskAnswer:
        """The answer from what this process finds."""
        asker = Asker(self.engine, FakeEncoder(), FakeLanguage())
        found, reply = asker.ask(self.question, 5, HOP, str(self.stack.head.id))
        return format_reply(found, reply, [], Understood(self.question), True)

    def reply(self) -> AskAnswer:
        """That of the workers, or of this process in their place."""

        def here() -> AskAnswer:
            self.here += 1
            return self.reply_alone()

        at = self.stack.head.id
        message = AskMessage(self.message(at, HOP, NOBODY), with_passages=True)
        return self.workers.answer(at, message, self.given, here)

    def given(self, wanted: Wanted) -> list[object] | None:
        self.wanted.append(wanted)
        if not self.has_models:
            return None
        if wanted.kind == "entities":
            return [*FakeLanguage().find_entities(wanted.texts)]
        return [*FakeEncoder().encode(wanted.texts)]

    def until_handed_over(self, hidden: Mask | Acl = NOBODY) -> None:
        """Ask, two at a time, until the worker has the head and answers."""
        end_s = time.monotonic() + 60
        while time.monotonic() < end_s:
            before = self.here
            self.ask(hidden=hidden)
            if self.here == before:
                return
            self.meet(self.workers)
            time.sleep(0.02)
        raise AssertionError("no worker answers")

    def meet(self, workers: QueryWorkers) -> QueryAnswer:
        """Ask while another query is answered."""
        message = self.message(self.stack.head.id, HOP, NOBODY)
        return workers.answer(self.stack.head.id, message, self.given, self.ask)

    def message(self, at: int, search: Search, hidden: Mask | Acl) -> QueryMessage:
        encoded = self.engine.encode_texts(self.question, search)
        meant, settings = Understood(self.question), WalkSettings()
        name = FakeEncoder().name
        return QueryMessage(meant, 5, search, str(at), hidden, settings, name, encoded)
