"""A document on the page: its passages as paragraphs, lists and tables."""

import pytest

from hopsyncd.web.reading import render_passage


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Gloves\nRope", "<ul><li>Gloves</li><li>Rope</li></ul>"),
        (
            "Bring:\n1. Rope\n  Of hemp\n2. Hat",
            "<p>Bring:</p><ul><li>1. Rope<ul><li>Of hemp</li></ul></li><li>2. Hat</li></ul>",
        ),
        ("[ ] Paint\n[x] Sand", "<ul><li>☐ Paint</li><li>☑ Sand</li></ul>"),
        ("x = 1\ny = 2", "<p>x = 1<br>y = 2</p>"),
        ("make all\nmake docs", "<p>make all<br>make docs</p>"),
        ("One line", "<p>One line</p>"),
    ],
)
def test_lines_of_a_passage_are_a_list_unless_they_are_code(text: str, shown: str) -> None:
    assert render_passage(text) == shown


def test_a_table_side_by_side_keeps_all_values() -> None:
    rows = ["Week: 1 | Topic: A | Week: 5 | Topic: B", "Week: 2 | Topic: C | Week: 6 | Topic: D"]
    html = render_passage("\n".join(rows))
    assert html.count("<th ") == 4
    assert [f"<td>{value}</td>" in html for value in "1A5B2C6D"] == [True] * 8


def test_deep_items_do_not_nest_without_limit() -> None:
    html = render_passage("\n".join("  " * depth + "Item" for depth in range(2000)))
    assert (html.count("<ul>"), html.count("<li>")) == (10, 2000)
