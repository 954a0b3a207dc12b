"""A daemon whose helper processes ended, because nobody needed them, answers with an edit."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.daemon import GC_LATER, Place, new_place, source

pytestmark = pytest.mark.models

FINDS_NAMES = "hopsyncd.models.language_process"


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(("tests.fakes.idle_daemon",)) as made:
        made.write("rome.md", "# Rome\n\nMira Kaltenbrunn met Peter Ravn in Rome in 1994.\n")
        made.configure(source("notes", made.notes) + GC_LATER)
        yield made


def helpers(place: Place) -> list[str]:
    """The command lines of the daemon's child processes."""
    assert place.process is not None
    found = []
    for task in Path(f"/proc/{place.process.pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread or a process that has just ended
            for child in (task / "children").read_text().split():
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                found.append(command.replace(b"\0", b" ").decode())
    return found


def test_an_edit_after_the_helpers_ended_is_found_and_starts_them_again(place: Place) -> None:
    place.start()
    place.sync()
    for word in ("Zanzibar", "Timbuktu"):
        edit_after_a_rest(place, word)


def edit_after_a_rest(place: Place, word: str) -> None:
    def finds_names() -> bool:
        return any(FINDS_NAMES in command for command in helpers(place))

    place.until(lambda: not finds_names())
    place.write(f"{word}.md", f"# Note\n\nAnna Holm of {word} met Peter Ravn in 1999.\n")
    place.until(finds_names)
    place.until(lambda: word in str(place.query(f"Who of {word} met Peter Ravn?")))
