"""The real write path over a real database file, put together with fakes at its two ends."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from connectors.protocol import Connector
from hopsyncd.llm.meter import Meter
from hopsyncd.sync.apply import Writer
from hopsyncd.sync.decide import Scope, Source
from hopsyncd.sync.prepare import Cost, Preparer, QuestionMaker
from hopsyncd.sync.read import rules_of
from hopsyncd.sync.sync import Outcome, SourceSync
from hopsyncd.text.extract import Extract, extract
from hopsyncd.text.questions import BuiltinMaker
from store.database import open_writer
from store.records import Passage, Version
from store.sources import register_source
from store.versions import head
from tests.fakes.models import CountingMaker, FakeEncoder, FakeLanguage


def fake_maker() -> CountingMaker:
    return CountingMaker(BuiltinMaker(FakeLanguage(), FakeEncoder()))


class Stack:
    """One source kept in sync with the database at `path`."""

    def __init__(
        self,
        path: Path,
        connector: Connector,
        maker: QuestionMaker | None = None,
        *,
        budget_factor: float = 1.0,
        batch_documents: int = 100,
        passage_tokens: int = 12,
        between: Callable[[], None] = lambda: None,
        extract: Extract = extract,
    ) -> None:
        self.connection = open_writer(path)
        self.connector = connector
        self.maker = maker or fake_maker()
        self.versions: list[Version] = []
        ticks = count(1_000_000)
        self.writer = Writer(
            self.connection,
            self.maker,
            rules=rules_of(passage_tokens),
            budget_factor=budget_factor,
            now_ms=lambda: next(ticks),
        )
        self.between = between
        self.source = Source(
            register_source(self.connection, "notes", "memory", ""), "notes", connector
        )
        self.path = SourceSync(
            self.connection,
            self.writer,
            passage_tokens=passage_tokens,
            batch_documents=batch_documents,
            now_ms=lambda: next(ticks),
            on_version=self.versions.append,
            extract=extract,
        )

    def sync(self, under: tuple[str, ...] | None = None, *, accept_empty: bool = False) -> Outcome:
        """A whole sync; `between` is called after each batch."""
        turns = self.path.turns(self.source, Scope(under, accept_empty))
        while True:
            try:
                next(turns)
            except StopIteration as ended:
                outcome: Outcome = ended.value
                return outcome
            self.between()

    def overtake(self, *under: str) -> Outcome:
        """A small sync, as a hint leads to while another is under way."""
        return self.path.sync(self.source, Scope(under, small=True))

    def prepare(self, *passages: Passage) -> None:
        """Make and store questions that no version holds."""
        preparer = Preparer(self.connection, self.maker, now_ms=lambda: 0, patience_s=60)
        preparer.prepare({"notes": passages}, Cost(Meter()))

    @property
    def head(self) -> Version:
        newest = head(self.connection)
        assert newest is not None
        return newest

    def close(self) -> None:
        self.connection.close()
