"""Notes in the inbox: whose they are, and how many a day."""

from datetime import datetime
from pathlib import Path

import pytest

from hopsyncd.api import notes
from hopsyncd.api.notes import write_note
from hopsyncd.errors import BadRequest


def write(inbox: Path, author: str, count: int = 1, text: str = "Text.") -> Path:
    return [write_note(inbox, "A title", text, ["tag"], author) for _ in range(count)][-1]


def test_a_note_names_its_author(tmp_path: Path) -> None:
    note = write(tmp_path, 'Zoë "the\n---\nowner": x')
    head = note.read_text(encoding="utf-8").split("---\n")[1]
    assert head == 'author: "Zoë \\"the\\n---\\nowner\\": x"\ntags: [tag]\n'
    assert write(tmp_path, "").read_text(encoding="utf-8").startswith("---\ntags: [tag]\n---\n")


def test_the_daily_limit_is_for_each_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_MOST_A_DAY", 3)
    write(tmp_path, "ann", 3, 'Text.\n---\nauthor: "bob"\n---\n')
    for _ in range(2):  # a refused note counts for nobody
        with pytest.raises(BadRequest, match="you wrote 3 notes today"):
            write(tmp_path, "ann")
    write(tmp_path, "bob", 3)
    write(tmp_path, "", 3)
    write(tmp_path, "an")
    with pytest.raises(BadRequest):
        write(tmp_path, "bob")
    with pytest.raises(BadRequest):
        write(tmp_path, "")
    (tmp_path / f"{datetime.now().astimezone():%Y-%m-%d}-folder").mkdir()
    write(tmp_path, "an")


def test_all_users_together_have_a_limit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_MOST_FILES_A_DAY", 4)
    for number in range(4):
        write(tmp_path, f"user{number}")
    with pytest.raises(BadRequest, match="all users together wrote 4 notes today"):
        write(tmp_path, "user9")
