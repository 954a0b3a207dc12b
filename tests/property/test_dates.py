"""Days are read from every spelling, and found as a rebuilt index would find them."""

import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.text.dates import find_dates
from tests.property.rebuilt import Step, check_answers, steps_of, texts_of

QUESTIONS = ("2 March 2024", "3 February 2024", "Who came on 2 March 2024?")
_SPELLINGS = ("{0:%Y-%m-%d}", "{0:%B} {0.day}, {0:%Y}", "{0.day} {0:%b} {0:%Y}")
_days = st.dates(datetime.date(1000, 1, 1), datetime.date(2999, 12, 31))
_text = texts_of(
    [
        "Seen 02/03/2024 here.",
        "Seen 22/03/2024 there.",
        "Seen 03/22/2024 there.",
        "Seen 2024-03-02 again.",
        "Das war der Tag mit dem Boot.",
        "It was the day of the boat.",
    ]
)


@given(_days, st.sampled_from(_SPELLINGS))
def test_every_spelling_of_a_day_is_read(day: datetime.date, spelling: str) -> None:
    found = [*find_dates(f"since {spelling.format(day)}.")]
    assert [(one.day, one.order) for one in found] == [(day.isoformat(), None)]


@settings(max_examples=settings().max_examples // 2)
@given(steps_of(["a.md", "b.md", "2024-03-02.md"], _text))
def test_days_are_found_as_after_a_rebuild_and_by_what_may_be_seen(steps: list[Step]) -> None:
    check_answers(QUESTIONS, "# First\n\nSeen 02/03/2024 here.", steps)
