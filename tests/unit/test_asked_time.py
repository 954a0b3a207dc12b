"""A time in a question becomes a filter that is offered."""

from datetime import datetime

import pytest

from hopsyncd.retrieve.query_parser import parse_question
from hopsyncd.retrieve.results import format_understood

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
        ("What was released in 2024?", "since:2024-01-01 before:2025-01-01"),
        ("Who won in 1998?", ""),
        ("last week before:2026-01", ""),  # the user has chosen another time
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
