"""Many sources at once: each gets its turn, and a small edit does not wait for any."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source

SOURCES = 20
BULK = 400  # files of the one source that is large
ALL = BULK + 2 * (SOURCES - 1) + 1


def tickets(place: Place) -> str:
    """A source that is no folder."""
    path = place.base / "tickets.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, body TEXT)")
        connection.execute("INSERT INTO ticket (body) VALUES ('The pump Zephyrine leaks.')")
        connection.commit()
    named = 'name = "tickets"\nkind = "sqlite"\ntable = "ticket"\nkey = "id"\ntext = ["body"]'
    return f'[[source]]\n{named}\npath = "{path}"\n'


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        blocks = ["[watch]\ndebounce_ms = 50\n", "[index]\nbatch_documents = 10\n"]
        for number in range(SOURCES):
            folder = made.base / f"s{number}"
            for file in range(BULK if number == 0 else 2):
                path = folder / f"{file}.md"
                path.parent.mkdir(exist_ok=True)
                lines = (f"Captain{number} met Pilot{file}x{line}." for line in range(4))
                path.write_text("\n\n".join(lines))
            blocks.append(source(f"s{number}", folder))
        blocks.append(tickets(made))
        made.configure("\n".join(blocks))
        made.start()
        yield made


def sources_of(place: Place) -> list[str]:
    """Whose documents each version took in, the first version first."""
    versions = place.get("/v1/log?limit=1000")["versions"]
    return [version["reason"].partition(":")[0] for version in reversed(versions)]


def test_twenty_sources_take_turns_and_an_edit_preempts_them(place: Place) -> None:
    place.until(lambda: place.status()["version"] >= 1)
    note = place.base / "s0/last.md"
    note.write_text("The custodian is Ximena Quolbridge.\n")
    place.until(lambda: "last.md" in place.documents("Ximena Quolbridge", strategy="bm25"))
    assert place.status()["documents"] < ALL
    (asked,) = place.sync("s7")["sources"]
    assert (asked["name"], asked["problem"]) == ("s7", None)
    place.sync()
    assert place.status()["documents"] == ALL + 1
    turns = sources_of(place)
    assert turns.count("s0") > BULK // 10
    first_round = [turns.index(f"s{number}") for number in range(SOURCES)]
    assert max(*first_round, turns.index("tickets")) <= SOURCES + 5
    assert place.documents("pump Zephyrine", strategy="bm25") == ["1"]
    assert place.status()["error"] is None
