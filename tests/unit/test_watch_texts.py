"""The text of a watched question's answer, at a terminal and on the page."""

from typing import Any

import pytest

from hopsyncd.cli.watches import _print_change, _print_state
from hopsyncd.web.rendering import make_templates
from hopsyncd.web.word_diff import mark_word_diff

BEFORE = "Town: Cork | Berths: 2"
AFTER = "Town: Cork | Berths: 3\nTown: Oslo | Berths: 4"
SHOWN = ("Town: Cork \u00b7 Berths: 3", "Town: Oslo \u00b7 Berths: 4")


def state(answer: str) -> dict[str, Any]:
    return {"version": 2, "answer": answer, "passages": []}


def test_rows_of_tables_have_dots_and_lines_at_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_state(state(AFTER))
    assert capsys.readouterr().out == "".join(f"  {line}\n" for line in SHOWN)


def change(before: str, after: str) -> dict[str, Any]:
    return {"id": 1, "told": "2026-11-26T00:00:00Z", "old": 1, "new": 2, "why": [], "error": None,
            "before": state(before), "after": state(after)}  # fmt: skip


def render(before: str, after: str) -> str:
    changed = change(before, after)
    shown = {"watch": {"unavailable": None}, "now": state(after), "changes": [changed]}
    page = make_templates(base="").get_template("watched_answers.html")
    return page.render(shown=shown, word_diff=mark_word_diff)


def test_an_equal_answer_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    _print_change(change("It closes at ten.", "It closes at ten."))
    printed = capsys.readouterr().out
    assert printed.count("It closes at ten.") == 1 and "the same answer" in printed
    _print_change(change("It closes at ten.", "It closes at nine."))
    assert "the same answer" not in capsys.readouterr().out
    html = render("It closes at ten.", "It closes at ten.")
    assert html.count("It closes at ten.") == 2, "now, and after the change"
    assert "The same answer" in html


def test_rows_of_tables_have_dots_on_the_page() -> None:
    html = render(BEFORE, AFTER)
    assert "\n".join(SHOWN) in html and "|" not in html
    assert "Berths: <ins>3\n" in html
