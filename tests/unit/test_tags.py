"""Tags: a name that cannot be seen is refused, and one from before can be deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.exceptions import TagRefused
from store.history import delete_tag, resolve, set_tag
from tests.fakes.lived import lived
from tests.fakes.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = lived(tmp_path / "s.db")
    yield made
    made.close()


@pytest.mark.parametrize("name", ["a\nb", "a\n", "\x1b[2J", "a\x00b", "tab\there", "a\u202eb"])
def test_a_name_with_control_characters_is_refused(stack: Stack, name: str) -> None:
    with pytest.raises(TagRefused, match="an invisible character"):
        set_tag(stack.connection, name, 6, 0)


def test_a_stored_tag_with_a_line_break_can_be_deleted(stack: Stack) -> None:
    stack.connection.execute("INSERT INTO tag VALUES (?, 5, 0)", ["a\nb"])
    assert resolve(stack.connection, "a\nb").id == 5
    delete_tag(stack.connection, "a\nb")


def test_a_name_in_words_is_kept(stack: Stack) -> None:
    set_tag(stack.connection, "Entwurf für Zoë / 2", 6, 0)
    assert resolve(stack.connection, "Entwurf für Zoë / 2").id == 6
