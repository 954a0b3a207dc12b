"""What `hopsyncd ask` prints if it found no answer."""

from typing import Any

import pytest

from hopsyncd.cli.output import place_text
from hopsyncd.cli.query import _print_closest


def passage(document: str, strength: str | None) -> dict[str, Any]:
    return {
        "id": "64cc0e656fedeaca", "text": f"The text of {document}.", "heading": [],
        "source": "notes", "document": document, "unit": "line", "lines": [3, 3], "span": [3, 3],
        "location": "line 3", "origin": {}, "strength": strength, "hops": [], "statements": [],
        "similar": [],
    }  # fmt: skip


def test_the_first_passages_that_may_answer_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        passage("a.md", "weak"), passage("b.md", "fair"), passage("c.md", "strong"),
        passage("d.md", "fair"),
    ]  # fmt: skip
    _print_closest({"passages": found, "version": 1}, "Who?", place_text)
    printed = capsys.readouterr()
    assert printed.out.startswith("The closest passages:\n1. b.md\n   notes: b.md:3   fair   id ")
    assert "2. c.md" in printed.out
    assert "a.md" not in printed.out and "d.md" not in printed.out
    assert not printed.err


@pytest.mark.parametrize("strength", ["weak", None])
def test_weak_passages_are_left_to_a_search(
    capsys: pytest.CaptureFixture[str], strength: str | None
) -> None:
    _print_closest({"passages": [passage("a.md", strength)], "version": 1}, "Who?", place_text)
    printed = capsys.readouterr()
    assert not printed.out
    assert "`hopsyncd query` shows" in printed.err
