"""Matches are changed part by part in a commit, with the same rows as at once."""

from pathlib import Path
from typing import Any

import pytest

from store import commit
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

CITIES = ("Rome", "Paris", "Oslo", "Lima")


def changed_matches(folder: Path) -> list[tuple[Any, ...]]:
    """All rows after documents came, changed and went."""
    files = MemoryConnector({})
    stack = Stack(folder / "s.db", files, part=500)
    for number, city in enumerate(CITIES * 3):
        other = CITIES[number // 3]
        files.put(f"{city}.md", f"# {city}\n\n{city} is near {other}. {other} has mills.".encode())
        if number == 9:
            files.remove("Oslo.md")
        stack.sync()
    rows = stack.connection.execute("SELECT * FROM match ORDER BY question, born").fetchall()
    stack.close()
    return rows


def test_parts_of_matches_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[list[tuple[Any, ...]]]()
    for size in (1000, 3, 2, 1):
        (folder := tmp_path / str(size)).mkdir()
        monkeypatch.setattr(commit, "_MATCHES_AT_ONCE", size)
        found.append(changed_matches(folder))
    assert len(found[0]) > 15
    assert found[0] == found[1] == found[2] == found[3]
