"""A day is found in whatever spelling it is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.text.dates import find_asked_day, find_dates, find_days_in_name
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

FILES = {
    "iso.md": "# Log\n\nThe pump was mended, 2025-05-07.\n",
    "us.md": "# Sales\n\nOrder of 06/03/2025 for lamps.\n\n# Two\n\nOrder of 12/24/2025 here.\n",
    "uk.md": "# Hire\n\nLet from 06/03/2025 for boats.\n\n# Two\n\nLet until 24/12/2025.\n",
    "de.md": "# Protokoll\n\nDas Treffen war am 08.09.2025 im Saal mit der Gruppe.\n",
    "en.md": "# Minutes\n\nThe meeting of the board was on 10/11/2025 in the hall.\n",
    "mixed.md": "# Mixed\n\nSeen 04/02/2025 there.\n\n# B\n\n25/12/2025\n\n# C\n\n12/25/2025\n",
    "journal/2025_01_30.md": "# Notes\n\nThe roof leaks again.\n",
    "noise.md": "# Noise\n\nMay and June of 2025 were warm for 7 weeks.\n",
}


class Shelf(Stack):
    def __init__(self, database: Path) -> None:
        self.files = MemoryConnector({path: text.encode() for path, text in FILES.items()})
        super().__init__(database, self.files, passage_tokens=20)
        self.database = database
        self.sync()

    def find(self, question: str, hidden: frozenset[str] = frozenset(), at: str = "head") -> str:
        """The path of the first passage."""
        engine = Engine(self.database, FakeEncoder(), WalkSettings())
        engine.publish(self.writer.make_snapshot(self.head))
        found = engine.query(question, 5, Search(), at, hidden=hidden)
        assert found is not None
        return found.places[found.ranked[0].passage][0].document

    def absent(self, question: str) -> tuple[str, ...]:
        engine = Engine(self.database, FakeEncoder(), WalkSettings())
        engine.publish(self.writer.make_snapshot(self.head))
        found = engine.query(question, 5, Search())
        assert found is not None
        return found.absent


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "s.db")
    yield made
    made.close()


@pytest.mark.parametrize(
    "text",
    [
        *("7 May 2025", "2025-05-07", "May 7th, 2025", "7. Mai 2025", "7 mai 2025"),
        *("7 de mayo de 2025", "the 7th of May 2025", "2025/05/07", "May 7 2025", "07 MAY 2025"),
    ],
)
def test_spellings_of_one_day_are_that_day(text: str) -> None:
    assert {(date.day, date.order) for date in find_dates(f"on {text}, noon")} == {
        ("2025-05-07", None)
    }


@pytest.mark.parametrize(
    "text",
    ["31 February 2025", "2025-13-01", "1.2.2025.7", "v2025-05-07-1", "7 Mayor 2025", "may 2025"],
)
def test_other_text_is_not_read_as_a_day(text: str) -> None:
    assert not [date for date in find_dates(text) if date.order is None]


def test_the_order_of_a_numeric_date_must_be_known() -> None:
    assert find_asked_day("07.05.2025", "Who came on 07.05.2025?") is None
    assert find_asked_day("07/05/2025", "07/05/2025 to 31/05/2025") == "2025-05-07"
    assert find_asked_day("07/05/2025", "05/31/2025 or 07/05/2025") == "2025-07-05"
    assert find_asked_day("07.05.2025", "Qui est venu le 07.05.2025 ?") == "2025-05-07"
    assert find_days_in_name("a/Report 2025-05-07.pdf") == ("2025-05-07",)
    assert find_days_in_name("a/123456789.pdf") == ()


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("7 May 2025", "iso.md"),
        ("What happened on May 7th, 2025?", "iso.md"),
        ("June 3, 2025", "us.md"),
        ("6 March 2025", "uk.md"),
        ("8 September 2025", "de.md"),
        ("Was war am 8. September 2025?", "de.md"),
        ("30 January 2025", "journal/2025_01_30.md"),
    ],
)
def test_a_day_is_found_in_another_spelling(shelf: Shelf, question: str, path: str) -> None:
    assert shelf.find(question) == path
    assert not shelf.absent(question)


@pytest.mark.parametrize("question", ["10 November 2025", "4 February 2025", "9 August 2025"])
def test_a_date_of_unclear_order_is_no_day(shelf: Shelf, question: str) -> None:
    assert shelf.absent(question) == (question,)


def test_the_typed_spelling_comes_first(shelf: Shelf) -> None:
    shelf.files.put("typed.md", b"# Typed\n\nThe boiler was mended on 7 May 2025 too.\n")
    shelf.sync()
    assert shelf.find("7 May 2025") == "typed.md"
    assert shelf.find("2025-05-07") == "iso.md"


def test_a_hidden_passage_does_not_tell_the_order(shelf: Shelf) -> None:
    shelf.files.put("part.md", b"# Part\n\nSold 02/03/2024 here.\n")
    shelf.sync()
    row = register_source(shelf.connection, "diary", "memory", "")
    told = b"# Part\n\nSold 02/03/2024 here.\n\n# More\n\nSold 22/03/2024 there.\n"
    shelf.path.sync(Source(row, "diary", MemoryConnector({"part.md": told})), Scope())
    engine = Engine(shelf.database, FakeEncoder(), WalkSettings())
    engine.publish(shelf.writer.make_snapshot(shelf.head))
    hidden = frozenset({"diary"})
    found = engine.query("2 March 2024", 5, Search(), hidden=hidden)
    assert found is not None
    assert found.absent == ("2 March 2024",)


def test_a_renamed_file_takes_its_day_with_it(shelf: Shelf) -> None:
    shelf.files.remove("journal/2025_01_30.md")
    shelf.files.put("journal/2025_02_28.md", FILES["journal/2025_01_30.md"].encode())
    shelf.sync()
    assert shelf.absent("30 January 2025") == ("30 January 2025",)
    assert shelf.find("28 February 2025") == "journal/2025_02_28.md"
