"""Which passages `why` takes for one that was edited, and how it prints two answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from hopsyncd.cli.why import _find_missing, _match_edited, _print_answers
from hopsyncd.client import RequestFailed


def passage(document: str) -> dict[str, Any]:
    return {"source": "notes", "document": document, "heading": ["Leave"]}


def holding(*ids: str) -> Any:
    """A client of a daemon whose versions all have just these passages."""

    def found(key: str, at: str) -> None:
        if key not in ids:
            raise RequestFailed(404, "not_found", f"There is no passage {key} at {at}", "")

    return SimpleNamespace(passage=found)


def test_a_passage_that_only_lost_rank_is_not_taken_for_an_edited_one() -> None:
    old = {"fell": (1, passage("a.md")), "was": (2, passage("a.md")), "same": (3, passage("b.md"))}
    new = {"now": (1, passage("a.md")), "rose": (2, passage("a.md")), "same": (3, passage("b.md"))}
    removed = _find_missing(holding("fell", "now", "rose", "same"), 2, old, new)
    added = _find_missing(holding("fell", "was", "rose", "same"), 1, new, old)
    assert _match_edited(removed, added) == {"now": "was"}


def test_each_changed_sentence_of_an_answer_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    due, moved = "The draft is due on 30 November.", "It is moved to {} December."
    _print_answers([due, moved.format(14)], [due, moved.format(18)])
    assert capsys.readouterr().out.splitlines() == [
        "  -It is moved to 14 December.",
        "   The draft is due on 30 November.",
        "  +It is moved to 18 December.",
    ]
    _print_answers([], [due])
    assert capsys.readouterr().out.splitlines() == ["  -not found in your documents", f"  +{due}"]
