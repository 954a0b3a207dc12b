"""The read path at versions other than the head."""

from pathlib import Path

import pytest

from hopsyncd.graph.walk import WalkSettings
from hopsyncd.query.engine import Engine, Head, head_of
from hopsyncd.strategy import STRATEGIES, Search, Strategy
from hopsyncd.sync.apply import Batch
from hopsyncd.text.questions import BuiltinMaker
from store.database import Connection
from store.errors import NoSuchVersion
from store.gc import Retention, collect
from store.purge import purge
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nRome lies on the Tiber. Caesar ruled in Rome.\n"
PARIS = b"# Paris\n\nParis lies on the Seine. Caesar called it Lutetia.\n"
QUESTION = "What did Caesar call Paris?"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    made = Stack(tmp_path / "s.db", MemoryConnector({"rome.md": ROME, "paris.md": PARIS}))
    made.sync()
    return made


def serving(stack: Stack, database: Path) -> Engine:
    engine = Engine(database, FakeEncoder(), WalkSettings())
    engine.publish(head_of(stack.connection, stack.head, stack.writer.index))
    return engine


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_past_version_answers_as_it_did_when_it_was_the_head(
    stack: Stack, tmp_path: Path, strategy: Strategy
) -> None:
    then = serving(stack, tmp_path / "s.db").query(QUESTION, 5, Search(strategy))
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    files.put("paris.md", PARIS + b"\nCaesar never saw the Eiffel Tower in Paris.\n")
    files.put("oslo.md", b"# Oslo\n\nCaesar never came to Oslo.\n")
    files.remove("rome.md")
    stack.sync()
    engine = serving(stack, tmp_path / "s.db")
    assert engine.query(QUESTION, 5, Search(strategy), at="1") == then
    assert engine.query(QUESTION, 5, Search(strategy)) != then


def test_a_version_of_another_encoder_is_refused_by_name(stack: Stack, tmp_path: Path) -> None:
    wider = BuiltinMaker(FakeLanguage(), FakeEncoder(24))
    stack.close()
    again = Stack(tmp_path / "s.db", stack.connector, wider)
    assert again.writer.renew() is not None
    engine = Engine(tmp_path / "s.db", FakeEncoder(24), WalkSettings())
    engine.publish(head_of(again.connection, again.head, again.writer.index))
    assert engine.query(QUESTION, 5, Search()) is not None
    with pytest.raises(NoSuchVersion, match="encoder"):
        engine.query(QUESTION, 5, Search(), at="1")


class Overtaken(Engine):
    """An engine whose head is replaced and collected just after a request took it up."""

    meanwhile: list[Head]

    def _served(self, connection: Connection, at: str) -> Head | None:
        served = super()._served(connection, at)
        while self.meanwhile:
            self.publish(self.meanwhile.pop())
        return served


def test_a_head_that_gc_collected_as_a_request_began_gives_way_to_the_next(
    stack: Stack, tmp_path: Path
) -> None:
    engine = Overtaken(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(head_of(stack.connection, stack.head, stack.writer.index))
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.put("paris.md", PARIS + b"\nParis has a tower.\n")
    stack.sync()
    collect(stack.connection, Retention(1, 0), 10_000_000_000)
    engine.meanwhile = []
    with pytest.raises(NoSuchVersion, match="expired"):
        engine.query(QUESTION, 5, Search())
    engine.meanwhile = [head_of(stack.connection, stack.head, stack.writer.index)]
    answer = engine.query(QUESTION, 5, Search())
    assert answer is not None and answer.version == 2


def test_a_past_version_is_read_anew_after_a_purge(stack: Stack, tmp_path: Path) -> None:
    stack.writer.apply(Batch("purge", gone=((stack.source.id, "paris.md"),)))
    engine = serving(stack, tmp_path / "s.db")
    before = engine.query(QUESTION, 5, Search(), at="1")
    purge(stack.connection, stack.source.id, "paris.md", 0)
    engine.forget_pasts()
    after = engine.query(QUESTION, 5, Search(), at="1")
    assert before is not None and after is not None
    assert {one.text for one in before.passages.values()} - {
        one.text for one in after.passages.values()
    }
    assert not any("Lutetia" in one.text for one in after.passages.values())
