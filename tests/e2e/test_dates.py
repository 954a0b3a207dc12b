"""Days are found in every spelling, and a time in a question offers a filter, over the socket."""

from collections.abc import Iterator

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(source("notes", made.notes))
        made.write("minutes.md", "# Minutes\n\nOn 2025-05-07 the harbour council met.\n")
        made.write("besuch.md", "# Besuch\n\nAm 07.05.2025 war der Hafen für alle offen.\n")
        made.write("visit.md", "# Visit\n\nOn 07.05.2025 the harbour was open to all.\n")
        made.write("2025_05_07.md", "# Diary\n\nRain, and a long walk.\n")
        made.write("other.md", "# Other\n\nOn 2025-05-08 the harbour council rested.\n")
        made.start()
        made.sync()
        yield made


def test_a_day_is_found_in_every_spelling_whose_order_is_known(place: Place) -> None:
    for spelling in ("7 May 2025", "May 7th, 2025", "2025-05-07", "7. Mai 2025"):
        found = place.query(spelling, k=3)
        assert {passage["document"] for passage in found} == {
            "minutes.md",
            "besuch.md",
            "2025_05_07.md",
        }


def test_a_time_in_a_question_offers_a_filter_and_hides_nothing(place: Place) -> None:
    ran = place.run("query", "Did the council meet last week?")
    assert ran.returncode == 0
    assert "add --since " in ran.stderr
    assert "minutes.md" in ran.stdout
    assert "--since" not in place.run("query", "Did the council meet?").stderr
