"""docs/ARCHITECTURE.md names every file that an edit and a question enter."""

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Place, new_place, source
from tests.e2e.films import FILMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
# The modules beside the rooms, which every room uses.
# The supervisor looks at the event loop now and then, whatever else happens.
EVERYWHERE = {"hopsyncd/api/supervisor.py"} | {
    f"hopsyncd/{file.name}" for file in (ROOT / "hopsyncd").glob("*.py")
} - {"hopsyncd/daemon.py"}  # fmt: skip
MOST_STEPS = {"The write path": 13, "The read path": 12}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(("tests.fakes.traced_daemon",)) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        made.configure(source("notes", made.notes))
        made.variables["HOPSYNCD_TRACE"] = str(made.base / "trace.json")
        made.start()
        made.sync()
        made.post("/v1/ask", {"question": "Who directed The Bronze Door?"})
        made.until(lambda: is_idle(made))
        yield made


def entered(place: Place) -> set[str]:
    """The files that the daemon entered since the last call."""
    trace = place.base / "trace.json"
    trace.unlink(missing_ok=True)
    assert place.process is not None
    place.process.send_signal(signal.SIGUSR2)
    place.until(trace.exists)
    return set(json.loads(trace.read_text(encoding="utf-8")))


def is_idle(place: Place) -> bool:
    """Whether the daemon has done all that follows its start, such as trying its readers."""
    time.sleep(1)
    return not any("/formats/" in name or "/ingest/" in name for name in entered(place))


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def named(title: str) -> set[str]:
    """The files that a section names, from the top of the repository."""
    found = re.findall(r"`([\w/]+\.py)`", section(title))
    return {name if (ROOT / name).exists() else f"hopsyncd/{name}" for name in found}


def test_the_page_names_every_file_that_an_edit_enters(place: Place) -> None:
    acknowledged = place.home / "data/hopsyncd.head"
    before = acknowledged.read_bytes()
    entered(place)
    place.write("films/new.md", "# The Glass Tower\n\nMira Kaltenbrunn directed The Glass Tower.\n")
    place.until(lambda: acknowledged.read_bytes() != before)
    time.sleep(0.5)  # until the version is published
    files = entered(place)
    assert {"hopsyncd/ingest/watch.py", "store/commit.py"} <= files
    missing = sorted(files - named("The write path") - EVERYWHERE)
    assert not missing, f"docs/ARCHITECTURE.md does not name {' '.join(missing)}"


def test_the_page_names_every_file_that_a_question_enters(place: Place) -> None:
    entered(place)
    place.query("Who directed The Bronze Door?")
    place.post("/v1/ask", {"question": "Where did the director of The Bronze Door grow up?"})
    files = entered(place)
    assert {"hopsyncd/api/app.py", "hopsyncd/retrieve/walk.py"} <= files
    missing = sorted(files - named("The read path") - EVERYWHERE)
    assert not missing, f"docs/ARCHITECTURE.md does not name {' '.join(missing)}"


@pytest.mark.parametrize("title", MOST_STEPS)
def test_a_path_can_be_read_in_few_steps(title: str) -> None:
    steps = re.findall(r"^\| \d+ \| `[\w/]+\.py` \|", section(title), re.MULTILINE)
    assert 8 <= len(steps) <= MOST_STEPS[title]
