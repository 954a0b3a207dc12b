"""Several sources in memory under one index, and an engine over it."""

from collections.abc import Mapping
from pathlib import Path

from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeLanguage
from tests.fakes.stack import Stack


class MemorySources:
    """`files` has the documents of each source, as text by path. They are served at once."""

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, Mapping[str, str]],
        encoder: Encoder,
        passage_tokens: int,
    ) -> None:
        folder.mkdir()
        maker = BuiltinMaker(FakeLanguage(), encoder)
        self.stack = Stack(folder / "s.db", MemoryConnector(), maker, passage_tokens=passage_tokens)
        self.connectors = {name: MemoryConnector() for name in files}
        self.sources = [
            Source(register_source(self.stack.connection, name, "memory", ""), name, connector)
            for name, connector in self.connectors.items()
        ]
        self.engine = Engine(folder / "s.db", encoder, WalkSettings())
        for name, documents in files.items():
            for path, text in documents.items():
                self.connectors[name].put(path, text.encode())
        self.sync()

    def sync(self) -> str:
        """Serve what the sources have now; the number of that version."""
        for source in self.sources:
            self.stack.path.sync(source, Scope(None, accept_empty=True))
        newest = self.stack.versions[-1]
        self.engine.publish(self.stack.writer.make_snapshot(newest))
        return str(newest.id)
