"""Tables of web pages."""

import pytest

from hopsyncd.formats.blocks import count_skipped
from hopsyncd.formats.readers import extract
from tests.unit.test_extract_html import blocks, texts


def test_a_table_row_is_one_block() -> None:
    text = "<table><tr><th>A<th>B</tr><tr><td>1</td><td><p>2</p></td></tr></table>"
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("table", "A: 1 | B: 2"),
    ]
    plain = "<table><tr><td>1<td>2<tr><td><td>4</table><table><tr><th>A<th>B</table>"
    assert [block.text for block in blocks(plain)] == ["1 | 2", " | 4", "A | B"]


def test_links_in_rows_are_those_of_their_cells() -> None:
    text = '<table><tr><td>x<td> <a href="a.md">one</a> <td><a href="b.md">two</a></table>'
    (row,) = blocks(text)
    assert [(row.text[at : at + 3], link.target) for at, link in row.links] == [
        ("one", "a.md"),
        ("two", "b.md"),
    ]


def test_tables_with_spans_captions_lists_and_tables_inside() -> None:
    page = (
        "<table><caption>Fares</caption><thead><tr><td rowspan=2>Route<td colspan=2>2025"
        "<tr><td>Low<td>High</thead><tr><th rowspan=2>North<td>1<td><ul><li>2<li>3</ul>"
        "<tr><td><table><tr><td>a<td>b</table><td>4<br>5</table>"
    )
    assert texts(page) == [
        "Fares",
        "Route: North | 2025 > Low: 1 | 2025 > High: 2; 3",
        "Route: North | 2025 > Low: a, b | 2025 > High: 4 5",
    ]


def test_tables_that_place_the_parts_of_a_page_are_no_tables() -> None:
    page = "<table><tr><td><h2>News</h2><p>One.<td><table><tr><td>x<td>y</table></table>"
    assert [(block.kind, block.text) for block in blocks(page)] == [
        ("heading", "News"),
        ("paragraph", "One."),
        ("table", "x | y"),
    ]


def test_a_table_inside_a_cell_keeps_its_values_with_the_names_of_its_columns() -> None:
    inner = (
        "<table><tr><th>Type</th><th>Sound</th></tr><tr><td>Short</td><td>quak</td></tr>"
        "<tr><td>Long</td><td>quaaack</td></tr></table>"
    )
    page = (
        "<table><tr><th>Action</th><th>How</th></tr><tr><td>Swim</td><td>Gently</td></tr>"
        f"<tr><td>Quack</td><td>{inner}</td></tr></table>"
    )
    linked = page.replace("<th>Type</th>", '<th><a href="https://example.org/">Type</a></th>')
    rows = [block.text for block in extract(page.encode(), "text/html")]
    assert rows == [
        "Action: Swim | How: Gently",
        "Action: Quack | How > Type: Short | How > Sound: quak",
        "Action: Quack | How > Type: Long | How > Sound: quaaack",
    ]
    (_, row, _) = extract(linked.encode(), "text/html")
    assert row.text == rows[1]
    assert [(at, link.text) for at, link in row.links] == [(len("Action: Quack | "), "Type")]
    plain = page.replace(inner, inner.replace("th>", "td>"))
    assert blocks(plain)[-1].text == "Action: Quack | How: Type, Sound; Short, quak; Long, quaaack"


def test_tables_in_tables_end_at_some_depth() -> None:
    opened = "<table><tr><th>a<th>b<tr><td>c<td>" * 300
    (row,) = blocks(opened + "deep")
    outer, _, flat = row.text.partition(" | b > b > b > b: ")
    assert outer == "a: c | b > a: c | b > b > a: c | b > b > b > a: c"
    assert flat.startswith("a, b; c, a, b; c, ") and flat.endswith("c, deep")


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        (
            "<tr><th>Name<th>Size<tr><th colspan=2>Fruit<tr><td>Plum<td>5<tr><th colspan=2>Nuts"
            "<tr><td>Pecan<td>2",
            ["Fruit", "Name: Plum | Size: 5", "Nuts", "Name: Pecan | Size: 2"],
        ),
        (
            "<tr><th colspan=2>Oslo<tr><th colspan=2>Area<tr><th>Land<td>426<tr><th colspan=2>Men"
            "<tr><th>Total<td>717",
            ["Oslo", "Area", "Land | 426", "Men", "Total | 717"],
        ),
        (
            "<tr><th>Item<th>Each<th>Sum<tr><td>Pen<td>2<td>4<tr><th colspan=2>Total<th>4",
            ["Item: Pen | Each: 2 | Sum: 4", "Item: Total | Sum: 4"],
        ),
    ],
)
def test_rows_that_are_titles_name_no_column(rows: str, read: list[str]) -> None:
    assert [block.text for block in blocks(f"<table>{rows}</table>")] == read


@pytest.mark.parametrize(
    "header",
    [
        "<td scope=col>City<td scope=col>People",
        "<td><b>City</b><td><strong>People</strong>",
    ],
)
def test_bold_cells_and_those_with_a_scope_name_columns(header: str) -> None:
    page = f"<table><tr>{header}<tr><td>Oslo<td>717,710<tr><td><b>All</b><td><b>900</b></table>"
    read = [block.text for block in blocks(page)]
    assert read == ["City: Oslo | People: 717,710", "City: All | People: 900"]


def test_bold_rows_with_empty_cells_name_the_columns() -> None:
    page = (
        "<table><tr><td><td><b>In</b><td><td><b>Out</b><td>"
        "<tr><td><td><b>Plan</b><td><b>Real</b><td><b>Plan</b><td><b>Real</b>"
        "<tr><td>North<td>1<td>2<td>3<td>4</table>"
    )
    (read,) = blocks(page)
    assert read.text == "North | In > Plan: 1 | In > Real: 2 | Out > Plan: 3 | Out > Real: 4"


def test_bold_first_columns_and_tables_all_in_bold_have_no_header() -> None:
    column = "<table><tr><td><b>City</b><td>Oslo<tr><td><b>People</b><td>717</table>"
    assert [block.text for block in blocks(column)] == ["City | Oslo", "People | 717"]
    whole = "<table><tr><td><b>City</b><td><b>717</b><tr><td><b>Bergen</b><td><b>9</b></table>"
    assert [block.text for block in blocks(whole)] == ["City | 717", "Bergen | 9"]


def test_elements_with_the_roles_of_a_table_are_a_table() -> None:
    page = (
        "<div role=grid><div role=rowgroup><div role=row><span role=columnheader>Name</span>"
        "<span role=columnheader>Age</span></div></div><div><div role=row><p><span role=gridcell>"
        "Ann</span></p><span role=gridcell>30</span></div></div></div><p role=row>Left alone.</p>"
    )
    assert [block.text for block in blocks(page)] == ["Name: Ann | Age: 30", "Left alone."]


def test_hidden_cells_move_no_value_under_the_header_of_another() -> None:
    page = (
        "<table><tr><th hidden>Key<th>Name<th>Age<tr><td hidden>k1<td>Ann<td>30<tr>"
        "<td style='display:none'>k2<td>Bo<td>31</table>"
    )
    read = extract(page.encode(), "text/html")
    assert [block.text for block in read if block.kind == "table"] == [
        "Name: Ann | Age: 30",
        "Name: Bo | Age: 31",
    ]
    assert count_skipped(read) == {"hidden parts": 3}


def test_a_picture_in_a_cell_says_what_it_stands_for() -> None:
    page = (
        "<table><tr><th>Plan<th>Sync<th>Logo<tr><td>Free<td><img alt=No src=n.png>"
        "<td><img alt=logo.png></table>"
    )
    assert [block.text for block in blocks(page)] == ["Plan: Free | Sync: No | Logo:"]
