"""The real write path over a real database file, put together with fakes at its two ends."""

from collections.abc import Callable
from itertools import count

from connectors.protocol import Connector
from hopsyncd.formats.readers import Extract, extract
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.prepare import Cost, Preparer
from hopsyncd.ingest.read import identify_rules
from hopsyncd.ingest.source_sync import SourceSync, SyncOutcome
from hopsyncd.ingest.upkeep import restore
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.questions import BuiltinMaker, QuestionMaker
from store.engines.sqlite.database import FileConnection
from store.open_database import Database, open_writer
from store.records import Passage, PassageId, Version
from store.sources import register_source
from store.versions import read_head
from tests.fakes.models import CountingMaker, FakeEncoder, FakeLanguage


def fake_maker() -> CountingMaker:
    return CountingMaker(BuiltinMaker(FakeLanguage(), FakeEncoder()))


class Stack:
    """One source kept in sync with the database at `path`, or of that URL."""

    def __init__(
        self,
        path: Database,
        connector: Connector,
        maker: QuestionMaker | None = None,
        *,
        budget_factor: float = 1.0,
        batch_documents: int = 100,
        passage_tokens: int = 12,
        between: Callable[[], None] = lambda: None,
        extract: Extract = extract,
        part: int = 1,
    ) -> None:
        self.connection = open_writer(path)
        self.connector = connector
        self.maker = maker or fake_maker()
        self.versions: list[Version] = []
        ticks = count(1_000_000)

        def writer_by(maker: QuestionMaker) -> VersionWriter:
            return VersionWriter(
                self.connection,
                maker,
                rules=identify_rules(passage_tokens),
                budget_factor=budget_factor,
                now_ms=lambda: next(ticks),
                part=part,
            )

        self.writer_by = writer_by
        self.writer = writer_by(self.maker)
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

    def sync(
        self, under: tuple[str, ...] | None = None, *, accept_empty: bool = False
    ) -> SyncOutcome:
        """A whole sync; `between` is called after each batch."""
        turns = self.path.sync_in_turns(self.source, Scope(under, accept_empty))
        while True:
            try:
                next(turns)
            except StopIteration as ended:
                outcome: SyncOutcome = ended.value
                return outcome
            self.between()

    def preempt(self, *under: str) -> SyncOutcome:
        """A small sync, as a hint leads to while another is under way."""
        return self.path.sync(self.source, Scope(under, small=True))

    def restore(self, number: int) -> Version | None:
        """Bring the source back to a version."""
        return restore(self.path, number, {self.source.id: self.source.name})

    def prepare(self, *passages: Passage) -> None:
        """Make and store questions that no version holds."""
        preparer = Preparer(self.connection, self.maker, now_ms=lambda: 0, patience_s=60)
        preparer.prepare({"notes": passages}, Cost(Usage()))

    @property
    def head(self) -> Version:
        newest = read_head(self.connection)
        assert newest is not None
        return newest

    @property
    def file(self) -> FileConnection:
        """The connection, where the record is in a file."""
        assert isinstance(self.connection, FileConnection)
        return self.connection

    @property
    def made(self) -> list[PassageId]:
        """For which passages the maker made sets, where it counts them."""
        assert isinstance(self.maker, CountingMaker)
        return self.maker.made

    def close(self) -> None:
        self.connection.close()
