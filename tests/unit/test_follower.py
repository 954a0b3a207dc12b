"""A follower's index: it is rebuilt once most of it is unused, and only then."""

from pathlib import Path
from typing import Any

import pytest

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.saved_index import SavedIndex
from store.content import get_generation
from store.contract import Connection
from store.gc import Retention, collect
from store.records import GenerationConfig
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

FILES = {
    f"{n}.md": f"# Topic{n}\n\nTopic{n} has a valve{n}. It turns pump{n}.\n".encode()
    for n in range(700)
}


class Audience:
    """Keeps the served snapshot."""

    def __init__(self, generation: GenerationConfig) -> None:
        self._generation = generation
        self.served: Snapshot | None = None

    def get_generation(self, name: str) -> GenerationConfig:
        return self._generation

    def serve(self, snapshot: Snapshot | None, generation: str = "") -> None:
        self.served = snapshot or self.served

    def learn_access(self, connection: Connection) -> None:
        pass


def test_a_worn_index_is_rebuilt_after_a_garbage_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopsyncd.ingest.follower._WORN_S", 0.0)
    connector = MemoryConnector(FILES)
    stack = Stack(tmp_path / "s.db", connector)
    stack.sync()
    audience = Audience(get_generation(stack.connection, stack.head.generation))
    (tmp_path / "data").mkdir()
    follower = Follower("postgresql://nowhere", SavedIndex(tmp_path / "data/index"))

    def follow() -> Any:
        follower._catch_up(stack.connection, audience)
        assert audience.served
        return audience.served.index

    first = follow()
    for path in [*connector.files][20:]:
        connector.remove(path)
    stack.sync()
    worn = follow()
    assert worn is first and worn.is_worn, "the history still needs the rows"
    collect(stack.connection, Retention(1, 0), 10**15)
    fresh = follow()
    assert fresh is not worn and not fresh.is_worn
    assert len(fresh.passages) == 20 < len(worn.passages)
    assert audience.served and audience.served.version.id == stack.head.id
    assert follow() is fresh, "once"
