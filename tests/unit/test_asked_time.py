"""A time in a question becomes a filter that is offered."""

from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import parse_question
from hopsyncd.retrieve.results import format_understood
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

NOON = datetime(2026, 3, 18, 12)


@pytest.mark.parametrize(
    ("question", "offered"),
    [
        ("Was steht hier?", ""),
        ("What changed since \u017feptember?", ""),
        ("What did we decide yesterday?", "since:2026-03-17 before:2026-03-18"),
        ("Was geschah letzte Woche?", "since:2026-03-09 before:2026-03-16"),
        ("news of last month", "since:2026-02-01 before:2026-03-01"),
        ("Who left since November?", "since:2025-11-01"),
        ("Who left since December 9999?", "since:9999-12-01"),
        ("What was released in 2024?", "since:2024-01-01 before:2025-01-01"),
        ("Who won in 1998?", ""),
        ("last week before:2026-01", ""),  # the user has chosen another time
        ("What came in today?", "since:2026-03-18"),
        ("My badge worked until today", ""),
        ("What did we do this week?", "since:2026-03-16"),
        ("Was geschah in diesem Monat?", "since:2026-03-01"),
        ("Was war im M\u00e4rz?", "since:2026-03-01 before:2026-04-01"),
        ("Who came in May?", "since:2025-05-01 before:2025-06-01"),
        ("minutes of the crane in December 2024", "since:2024-12-01 before:2025-01-01"),
        ("Who came in May 1998?", ""),
        ("Who may come in?", ""),
    ],
)
def test_a_time_is_offered_and_not_applied(question: str, offered: str) -> None:
    meant = parse_question(question, (), NOON)
    assert meant.asked_time == offered
    told = format_understood(None, meant)
    assert (told["offered_filter"] if told else "") == offered
    assert "since:" not in meant.filter_text
    again = parse_question(f"q {offered}", (), NOON)
    assert again.filter_text == offered  # it can be typed as it is offered


FILES = {
    "minutes/2026-03-12.md": b"# Crane\n\nThe crane was mended.\n",
    "minutes/2026-03-16.md": b"# Crane\n\nThe crane was painted.\n",
    "plan.md": b"# Crane\n\nThe crane is sold soon.\n",
}


@pytest.mark.parametrize(
    ("question", "offered"),
    [
        ("What was decided last week?", "created-since:2026-03-09 created-before:2026-03-16"),
        ("What is new since March?", "created-since:2026-03-01"),
        # The asked period has no document with a day of its own, or the time of change is asked.
        ("What was decided last month?", "since:2026-02-01 before:2026-03-01"),
        ("What changed last week?", "since:2026-03-09 before:2026-03-16"),
        ("crane path:plan last week", "since:2026-03-09 before:2026-03-16"),
    ],
)
def test_the_day_that_documents_carry_is_offered(
    tmp_path: Path, question: str, offered: str
) -> None:
    meant = parse_question(question, (), NOON)
    with closing(Stack(tmp_path / "s.db", MemoryConnector(FILES), passage_tokens=200)) as stack:
        stack.sync()
        engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
        engine.publish(stack.writer.make_snapshot(stack.head))
        found = engine.query(meant.question, 5, Search(), filter_=meant.filter_)
    told = format_understood(found, meant)
    assert told is not None
    assert told["offered_filter"] == offered
