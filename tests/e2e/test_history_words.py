"""Fifty edits, and how `log`, `diff` and `why` tell each to a person: golden_history.txt.

Read what changes there as a new user would. `HOPSYNCD_GOLDEN=write` in the environment writes it
anew.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopsyncd.cli.main import cli
from tests.e2e.daemon import SMALL, Place, new_place, source

GOLDEN = Path(__file__).with_name("golden_history.txt")
QUESTION = "Who approves leave of the ferry crew?"

FILES = {
    "handbook/leave.md": """\
---
title: Leave
tags: [people, rules]
---
# Leave

Every member of the ferry crew has 28 days of leave a year. Unused days expire in March.

## Approval

Leave is approved by Nora Lindqvist. She answers within three days. See [[travel]].

## Sickness

1. Call the pier before six in the morning.
2. Send a certificate after the third day.
""",
    "handbook/travel.md": """\
# Travel

Trips on duty are booked by the harbour office. Second class is usual.

| distance | allowance |
| --- | --- |
| up to 50 km | 6 crowns |
| up to 200 km | 14 crowns |

> [!warning] Receipts
> Keep every receipt for a year.
""",
    "guide/engine.rst": """\
Engine
======

The engine of the ferry was built in Malmo in 1987. It drives two screws.

Oil
---

Change the oil every 400 hours. Use grade 15W-40.

.. code-block:: sh

   engine --stop
   drain --oil
""",
    "guide/radio.rst": """\
Radio
=====

The bridge listens on channel 16. Weather comes on channel 67 at noon.
""",
    "notes/crew.md": """\
# Crew

- Nora Lindqvist is the captain.
- Emil Berg looks after the engine.
- Tuva Holm sells tickets.
""",
    "notes/timetable.txt": """\
TIMETABLE

The ferry leaves the north pier at seven, nine and eleven. On Sundays it leaves at ten only.

The crossing takes forty minutes.
""",
    "notes/minutes/2026-01.md": "# January\n\nThe crew agreed to paint the ferry green.\n",
    "notes/minutes/2026-02.md": "# February\n\nThe green paint was ordered from Malmo.\n",
    "site/index.html": "<h1>Ferry</h1><p>Tickets cost 4 crowns.</p><p>Dogs travel free.</p>\n",
}

Edit = Callable[[Path], object]
_EDGES = re.compile(r", edges .+")  # how many differ is no matter of words


def swap(path: str, old: str, new: str) -> Edit:
    """Replace a text of a file, which is there once."""

    def edit(notes: Path) -> None:
        text = (notes / path).read_text("utf-8")
        assert text.count(old) == 1, (path, old)
        (notes / path).write_text(text.replace(old, new), encoding="utf-8")

    return edit


def put(path: str, text: str) -> Edit:
    """Write a file."""

    def edit(notes: Path) -> None:
        (notes / path).parent.mkdir(parents=True, exist_ok=True)
        (notes / path).write_text(text, encoding="utf-8")

    return edit


def add(path: str, text: str) -> Edit:
    """Add to the end of a file."""
    return lambda notes: put(path, (notes / path).read_text("utf-8") + text)(notes)


def move(old: str, new: str) -> Edit:
    """Rename a file or a folder."""

    def edit(notes: Path) -> None:
        (notes / new).parent.mkdir(parents=True, exist_ok=True)
        (notes / old).rename(notes / new)

    return edit


def remove(path: str) -> Edit:
    """Delete a file."""
    return lambda notes: (notes / path).unlink()


def copy(old: str, new: str) -> Edit:
    """Copy a file."""
    return lambda notes: shutil.copy(notes / old, notes / new)


def both(*edits: Edit) -> Edit:
    """Several edits at once."""
    return lambda notes: [edit(notes) for edit in edits]


SUNDAYS, CROSSING = "On Sundays it leaves at ten only.", "The crossing takes forty minutes."
LOG = "# Log\n\n" + "".join(
    f"On day {day} the ferry made {day % 7} trips.\n\n" for day in range(1, 61)
)
LEAVE, TRAVEL, ENGINE = "handbook/leave.md", "handbook/travel.md", "guide/engine.rst"
CREW, TIMES, SITE = "notes/crew.md", "notes/timetable.txt", "site/index.html"
EDITS: list[tuple[str, Edit]] = [
    ("a number", swap(LEAVE, "28 days", "30 days")),
    ("a name", swap(LEAVE, "approved by Nora Lindqvist", "approved by Emil Berg")),
    ("a sentence is added", swap(LEAVE, "three days.", "three days. In July she needs a week.")),
    ("a sentence goes", swap(LEAVE, " Unused days expire in March.", "")),
    ("two sentences change places",
     swap(TIMES, f"{SUNDAYS}\n\n{CROSSING}", f"{CROSSING}\n\n{SUNDAYS}")),
    ("a paragraph is added", add(TIMES, "\nIn winter the first ferry leaves at eight.\n")),
    ("a paragraph goes", swap(TIMES, "\nIn winter the first ferry leaves at eight.\n", "")),
    ("a typo is mended", swap(CREW, "looks after", "tends")),
    ("a heading", swap(LEAVE, "## Approval", "## Who approves")),
    ("the title", swap(TRAVEL, "# Travel", "# Trips")),
    ("a heading one level deeper", swap(LEAVE, "## Sickness", "### Sickness")),
    ("a section is added", add(TRAVEL, "\n## Abroad\n\nTrips abroad need a passport.\n")),
    ("a section goes", swap(TRAVEL, "\n## Abroad\n\nTrips abroad need a passport.\n", "")),
    ("a list item is added", add(CREW, "- Olle Ek paints.\n")),
    ("a list item goes", swap(CREW, "- Tuva Holm sells tickets.\n", "")),
    ("a step of a numbered list", swap(LEAVE, "third day", "second day")),
    ("a cell of a table", swap(TRAVEL, "14 crowns", "16 crowns")),
    ("a row of a table",
     swap(TRAVEL, "| 16 crowns |\n", "| 16 crowns |\n| farther | 30 crowns |\n")),
    ("a callout", swap(TRAVEL, "for a year", "for two years")),
    ("code", swap(ENGINE, "drain --oil", "drain --oil --slow")),
    ("a link", swap(LEAVE, "See [[travel]].", "See [[travel]] and [[crew]].")),
    ("a tag", swap(LEAVE, "[people, rules]", "[people, rules, 2026]")),
    ("the title in the front matter", swap(LEAVE, "title: Leave", "title: Leave of absence")),
    ("bold", swap(CREW, "the captain", "the **captain**")),
    ("lines wrapped anew", swap(ENGINE, "in 1987. It", "in 1987.\nIt")),
    ("blanks at the end of a line", swap(TIMES, "forty minutes.", "forty minutes.  ")),
    ("touched alone", lambda notes: (notes / CREW).touch()),
    ("a file is added", put("notes/minutes/2026-03.md", "# March\n\nThe paint has come.\n")),
    ("a file goes", remove("guide/radio.rst")),
    ("it comes back", put("guide/radio.rst", FILES["guide/radio.rst"])),
    ("a file is renamed", move(TIMES, "notes/departures.txt")),
    ("a file moves", move("notes/departures.txt", "site/departures.txt")),
    ("renamed and edited",
     both(move("site/departures.txt", "notes/times.txt"),
          swap("notes/times.txt", "seven,", "six,"))),
    ("a folder is renamed", move("notes/minutes", "notes/meetings")),
    ("a copy", copy(CREW, "notes/crew-old.md")),
    ("the copy is edited", swap("notes/crew-old.md", "tends", "repairs")),
    ("the copy goes", remove("notes/crew-old.md")),
    ("three files at once",
     both(swap(SITE, "4 crowns", "5 crowns"),
          swap(CREW, "paints", "paints and sings"),
          swap("guide/radio.rst", "noon", "one"))),
    ("a page of HTML", swap(SITE, "Dogs travel free.", "Dogs travel at half the price.")),
    ("only markup of HTML", swap(SITE, "<p>Tickets", '<p class="price">Tickets')),
    ("a file becomes empty", put("notes/meetings/2026-03.md", "")),
    ("it is written again", put("notes/meetings/2026-03.md", "# March\n\nThe ferry is green.\n")),
    ("one sentence in two places",
     both(swap(ENGINE, "two screws", "one screw"),
          swap("guide/radio.rst", "Weather", "The weather"))),
    ("a sentence moves to another file",
     both(swap(LEAVE, " She answers within three days.", ""),
          add(CREW, "\nShe answers within three days.\n"))),
    ("a long file", put("guide/log.md", LOG)),
    ("one line of it", swap("guide/log.md", "30 the ferry made 2 trips", "30 it stayed in port")),
    ("its first and last lines",
     both(swap("guide/log.md", "On day 1 the", "On the first day the"),
          swap("guide/log.md", "On day 60 the", "On the last day the"))),
    ("all of a file",
     put("guide/radio.rst", "Signals\n=======\n\nOne long blast means the ferry leaves.\n")),
    ("another language", add(CREW, "\nDie Fähre heißt Möwe. 船名は鴎である。\n")),
    ("twelve files at once",
     both(*(put(f"archive/{year}.md", f"# {year}\n\nCalm.\n") for year in range(2001, 2013)))),
]  # fmt: skip


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILES.items():
            made.write(path, text)
        made.configure("[watch]\nenabled = false\n" + source("notes", made.notes))
        made.start()
        yield made


def test_fifty_edits_are_described_as_they_were_read(place: Place) -> None:
    told = "".join(_told(place))
    if os.environ.get("HOPSYNCD_GOLDEN") == "write":
        GOLDEN.write_text(told, encoding="utf-8")
    assert told == GOLDEN.read_text("utf-8")


def _told(place: Place) -> Iterator[str]:
    assert len(EDITS) == 50
    run = partial(CliRunner().invoke, cli, env={"HOPSYNCD_HOME": str(place.home)})
    before = place.sync()["version"]
    for title, edit in EDITS:
        edit(place.notes)
        now = place.sync()["version"]
        yield f"##### {title}\n"
        if now == before:
            yield "(no new version)\n\n"
            continue
        about = run(["log", "-n", "1"]).output.splitlines()[1].strip()
        yield f"$ log: {about}\n"
        for command in (["diff", str(before)], ["why", QUESTION, str(before), "-k", "3"]):
            ran = run(command)
            assert ran.exit_code == 0, ran.output
            yield f"$ {command[0]}\n{_EDGES.sub('', ran.output)}"
        yield "\n"
        before = now
