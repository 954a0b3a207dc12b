"""The creation date of a document: from its properties, or the day in its file name."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from hopsyncd.config.values import Search
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import parse_question
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

FILES = {
    "journal/2026-03-12.md": b"# Crane\n\nThe crane was mended.\n",
    "2026-03-13 Crane.md": b"---\ncreated: 2025-01-01\n---\n\nThe crane was painted.\n",
    "crane 2026-03-11 to 2026-03-12.md": b"The crane was rented.\n",
    "crane.md": b"The crane was sold.\n",
}


def test_a_single_day_in_the_file_name_is_the_creation_date(tmp_path: Path) -> None:
    wanted = parse_question(
        "crane", ["created-since:2026-03-10", "created-before:2026-03-16"], datetime.now(UTC)
    ).filter_
    with closing(Stack(tmp_path / "s.db", MemoryConnector(FILES), passage_tokens=200)) as stack:
        stack.sync()
        engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
        engine.publish(stack.writer.make_snapshot(stack.head))
        found = engine.query("crane", 5, Search(), filter_=wanted)
    assert found is not None
    documents = [found.places[hit.passage][0].document for hit in found.ranked]
    assert documents == ["journal/2026-03-12.md"]
