"""Tables become text row by row, each cell under its own header."""

import time

import pytest

from hopsyncd.formats.blocks import WrittenLink
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.inline import write_subscript, write_superscript
from hopsyncd.formats.readers import extract
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder


def grid(*rows: str, headers: int = 0, caption: str = "") -> TableBuilder:
    """Cells of a row stand between bars; `^2` before a text spans rows, `>2` spans columns."""
    builder = TableBuilder(caption)
    for number, row in enumerate(rows, 1):
        builder.begin_row(number, is_header=number <= headers)
        for cell in row.split("|"):
            spans = {"^": 1, ">": 1}
            text = cell.strip()
            while text[:1] in spans and text[1:2].isdigit():
                spans[text[0]], text = int(text[1]), text[2:].strip()
            builder.add(text, rowspan=spans["^"], colspan=spans[">"])
    return builder


def texts(builder: TableBuilder, *, guess_header: bool = False) -> list[str]:
    return [block.text for block in make_table_blocks(builder.build(guess_header=guess_header))]


def test_an_empty_corner_shifts_no_label() -> None:
    table = grid(" | Low | High", "Skarvbu | 110 | 310", "Ternebu |  | 320", headers=1)
    assert texts(table) == ["Skarvbu | Low: 110 | High: 310", "Ternebu | High: 320"]


def test_cells_that_span_rows_are_repeated() -> None:
    table = grid(
        "Route | Boat | Fare",
        "^3 Northern | Alva | 40",
        "Brage | 45",
        "Disa | 50",
        "Southern | >2 cancelled",
        headers=1,
    )
    assert texts(table) == [
        "Route: Northern | Boat: Alva | Fare: 40",
        "Route: Northern | Boat: Brage | Fare: 45",
        "Route: Northern | Boat: Disa | Fare: 50",
        "Route: Southern | Boat: cancelled | Fare: cancelled",
    ]


def test_labels_are_the_path_of_headers() -> None:
    table = grid("^2 Hut | >2 2025", "Low | High", "Skarvbu | 1 | 3", headers=2)
    assert texts(table) == ["Hut: Skarvbu | 2025 > Low: 1 | 2025 > High: 3"]


def test_labels_may_be_years_and_long_texts() -> None:
    question = "How many of the boats that came to the harbour in the year carried herring?"
    table = grid(f"Port | 2024 | {question}", "Bodø | 12 | 4", headers=1)
    assert texts(table) == [f"Port: Bodø | 2024: 12 | {question}: 4"]


def test_a_header_across_the_table_names_all_columns_unless_rows_have_their_own() -> None:
    assert texts(grid(">2 Action", "Swim | fast", headers=1)) == ["Action: Swim | Action: fast"]
    infobox = TableBuilder()
    infobox.begin_row(1)
    infobox.add("Duck", is_header=True, colspan=2)
    infobox.begin_row(2)
    infobox.add("Order", is_header=True)
    infobox.add("Anseriformes")
    assert texts(infobox) == ["Duck", "Order | Anseriformes"]


def test_a_title_row_is_the_caption_of_each_passage() -> None:
    rows = [f"Hut {n:03} | {100 + n} | {300 + n}" for n in range(60)]
    table = grid(">3 Prices", "Hut | Low | High", *rows, headers=2)
    passages = split_into_passages(list(make_table_blocks(table.build())))
    assert len(passages) > 2
    assert all(passage.text.startswith("Prices\n") for passage in passages)
    lines = [line for passage in passages for line in passage.text.split("\n") if "Hut" in line]
    assert lines == [
        f"Hut: Hut {n:03} | Low: {100 + n} | High: {300 + n}" for n in range(60)
    ]  # fmt: skip


def test_a_group_is_repeated_where_a_passage_begins_inside_it() -> None:
    rows = [f"Boat {n} | {n} | of the northern fleet, painted blue" for n in range(60)]
    table = grid("Boat | Length | Note", ">3 Trawlers", *rows, headers=1)
    first, *others = split_into_passages(list(make_table_blocks(table.build())))
    assert first.text.startswith("Trawlers\nBoat: Boat 0 |")
    assert others
    assert all(passage.text.startswith("Trawlers\n") for passage in others)


def test_without_headers_empty_cells_keep_their_places() -> None:
    assert texts(grid("a | | | c", " | b | | c", "d | | |")) == ["a |  | c", " | b | c", "d"]


def test_the_first_row_is_no_header_unless_marked() -> None:
    rows = ("Tove | Oslo", "Gro | Bergen")
    assert texts(grid(*rows)) == ["Tove | Oslo", "Gro | Bergen"]
    assert texts(grid(*rows), guess_header=True) == ["Tove: Gro | Oslo: Bergen"]
    assert texts(grid("12 | 13", "14 | 15"), guess_header=True) == ["12 | 13", "14 | 15"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("Port | 2024 | 2025", "Bodø | 12 | 14"), ["Port: Bodø | 2024: 12 | 2025: 14"]),
        ((" | Low | High", "Skarvbu | 1 | 3"), ["Skarvbu | Low: 1 | High: 3"]),
        (("Prices | | ", "Hut | Low", "Skarvbu | 1"), ["Prices", "Hut: Skarvbu | Low: 1"]),
        ((" | 2024 | 2025", "Born | 1961 | 1962"), [" | 2024 | 2025", "Born | 1961 | 1962"]),
        (("2024 | 2025", "2026 | 2027"), ["2024 | 2025", "2026 | 2027"]),
    ],
)
def test_a_guessed_header_names_columns_only_if_the_content_fits(
    rows: tuple[str, ...], expected: list[str]
) -> None:
    assert texts(grid(*rows), guess_header=True) == expected


def test_repeated_headers_are_dropped_and_new_headers_name_later_rows() -> None:
    builder = TableBuilder()
    for is_header, row in [(True, "A|B"), (False, "1|2"), (True, "A|B"), (False, "3|4"),
                           (True, "C|D"), (False, "5|6"), (True, "Total|9")]:  # fmt: skip
        builder.begin_row(1)
        for text in row.split("|"):
            builder.add(text, is_header=is_header)
    assert texts(builder) == ["A: 1 | B: 2", "A: 3 | B: 4", "C: 5 | D: 6", "C: Total | D: 9"]


@pytest.mark.parametrize(
    ("row", "read_as"),
    [
        (">2 None in this year", ["Port | Fee", "None in this year"]),
        (">2 3.5", ["Port | Fee", "3.5"]),
        ("Alva", ["Port: Alva | Fee:"]),
    ],
)
def test_names_of_columns_above_a_row_without_values_are_read(row: str, read_as: list[str]) -> None:
    assert texts(grid("Port | Fee", row, headers=1)) == read_as


def test_names_of_columns_that_are_empty_up_to_a_row_of_other_names_are_read() -> None:
    builder = grid("Port | Fee | Tax", "Alva | 3 |", headers=1)
    builder.begin_row(3, is_header=True)
    for name in ("Boat", "Crew", "Load"):
        builder.add(name)
    builder.begin_row(4)
    for text in ("Brage", "", "7"):
        builder.add(text)
    assert texts(builder) == ["Port: Alva | Fee: 3 | Tax:", "Boat: Brage | Crew: | Load: 7"]


def test_names_of_columns_are_read_where_only_names_of_rows_span_them() -> None:
    assert texts(grid("Port | Fee | Tax", ">2 Alva | 3", ">2 Brage | 4", headers=1)) == [
        "Port: Alva | Fee: | Tax: 3",
        "Port: Brage | Tax: 4",
    ]
    assert texts(grid("Port", "Alva | 3", ">2 None", headers=1)) == ["Port: Alva | 3", "None"]
    assert texts(grid("Port | Fee", ">2 Coast", " | 3", headers=1)) == [
        "Coast",
        "Port: | Fee: 3",
    ]


def test_names_of_many_columns_without_values_are_read_once() -> None:
    names = " | ".join(f"Week {number}" for number in range(40))
    table = grid(f"Port | {names}", "Alva", "Brage", headers=1)
    assert texts(table) == [f"Port | {names}", "Port: Alva", "Port: Brage"]


def test_a_table_that_is_only_a_title_is_text() -> None:
    assert texts(grid(">2 Fares of 2026", headers=1)) == ["Fares of 2026"]
    assert texts(grid(">3 Fares", ">3 of 2026", headers=2)) == ["Fares", "of 2026"]
    page = b"<p>Text.</p><table><tr><th colspan=2>Fares</th></tr></table><p>Below.</p>"
    assert [block.text for block in extract(page, "text/html")] == ["Text.", "Fares", "Below."]


def test_a_table_of_headers_alone_is_text_and_an_empty_table_has_no_text() -> None:
    assert texts(grid("A | B", headers=1)) == ["A | B"]
    assert texts(TableBuilder()) == []


def test_links_keep_their_places_and_those_of_headers_come_first() -> None:
    builder = TableBuilder()
    builder.begin_row(1, is_header=True)
    builder.add("A", links=((0, WrittenLink("a", "A")),))
    builder.add("B")
    builder.begin_row(2, 3)
    builder.add("one")
    builder.add("see  two", links=((5, WrittenLink("two", "two")),))
    (row,) = make_table_blocks(builder.build())
    assert (row.text, row.first_line, row.last_line) == ("A: one | B: see two", 2, 3)
    assert [(at, link.target) for at, link in row.links] == [(0, "a"), (16, "two")]
    assert row.text[16:] == "two"


def test_a_long_row_repeats_its_first_cell_in_each_line() -> None:
    cells = " | ".join(f"Column {n}: " + "word " * 40 for n in range(12))
    table = grid("Name: Tove | " + cells.replace("word ", "word "))
    passages = split_into_passages(list(make_table_blocks(table.build())))
    lines = [line for passage in passages for line in passage.text.split("\n")]
    assert len(lines) > 3
    assert all(line.startswith("Name: Tove | Column ") for line in lines)
    assert sum(line.count("word") for line in lines) == 12 * 40


@pytest.mark.parametrize(
    "page",
    [
        "<table>" + "<tr><td rowspan=60000 colspan=1000>a" * 2000 + "</table>",
        "<table><tr>" + "<td rowspan=60000>a" * 3000 + "<tr><td>b" * 3000 + "</table>",
        "<table><tr>" + f"<th>{'x' * 150}" * 300 + ("<tr>" + "<td>a" * 300) * 300 + "</table>",
    ],
)
def test_spans_and_labels_are_bounded(page: str) -> None:
    began = time.process_time()
    blocks = extract(page.encode(), "text/html")
    assert time.process_time() - began < 5
    assert sum(len(block.text) for block in blocks) < 60 * len(page) + 1_000_000


def test_markdown_and_csv_fill_the_grid() -> None:
    years = b"| Port | 2024 | 2025 |\n|---|---|---|\n| Vard\xc3\xb8 | 1 | 2 |\n"
    assert [block.text for block in extract(years, "text/markdown")] == [
        "Port: Vardø | 2024: 1 | 2025: 2"
    ]
    corner = b"| | Low | High |\n|---|---|---|\n| Hut | | 2 |\n"
    assert [block.text for block in extract(corner, "text/markdown")] == ["Hut | Low: | High: 2"]
    rows = b",Low,High\n" + b"".join(b"Hut %d,%d,2\n" % (n, n) for n in range(2500))
    read = extract(rows, "text/csv")
    assert [block.text for block in read] == [f"Hut {n} | Low: {n} | High: 2" for n in range(2500)]
    assert [block.first_line for block in read] == list(range(2, 2502))


def test_raised_and_lowered_text_is_marked_where_it_changes_the_value() -> None:
    assert "10" + write_superscript("6", "10") == "10^6"
    assert "H" + write_subscript("2", "H") == "H_2"
    assert "3" + write_superscript("rd", "3") == "3rd"
    assert "Hopsyncd" + write_superscript("TM", "Hopsyncd") == "HopsyncdTM"


def test_a_column_without_a_value_is_named_once() -> None:
    table = grid("A | B | C", "1 |  | ", "2 |  | ", headers=1)
    assert texts(table) == ["A: 1 | B: | C:", "A: 2"]


def test_without_headers_a_cell_keeps_the_places_that_it_spans() -> None:
    table = grid(">2 Hut | Fare", "Skarvbu | north | 110", ">2 Ternebu | 120")
    assert texts(table) == ["Hut |  | Fare", "Skarvbu | north | 110", "Ternebu |  | 120"]
    layout = grid(">2 Name | Anna", ">2 Port | Bergen")
    assert texts(layout) == ["Name | Anna", "Port | Bergen"]


def test_tables_in_cells_without_text_are_read() -> None:
    inner = grid("Dock | 7").build()
    table = TableBuilder()
    table.begin_row(1, is_header=True)  # Word marks the first row of any table
    table.add("", inner=(inner,))
    table.add("")
    table.begin_row(2)
    table.add("", inner=(grid("Berth | 9").build(),))
    table.add("Quay")
    assert texts(table) == ["Dock | 7", "Quay | Berth | 9"]


def test_a_table_in_a_cell_across_the_first_row_is_read() -> None:
    table = TableBuilder()
    table.begin_row(1)
    table.add("Harbour", inner=(grid("Dock | 7").build(),), colspan=2)
    table.begin_row(2, is_header=True)
    table.add("Boat")
    table.add("Fare")
    table.begin_row(3)
    table.add("Alva")
    table.add("40")
    assert "Harbour | Dock | 7" in texts(table)


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (" | 2023 | | 2024 | ", "Region | Q1 | Q2 | Q1 | Q2", "Region: North"),
        ("Region | In | | Out | ", " | Plan | Real | Plan | Real", "Region: North"),
        (" | In | | Out | ", "| Plan | Real | Budget | Sum", "North"),
    ],
)
@pytest.mark.parametrize("headers", [0, 1, 2])
def test_a_name_above_the_first_column_of_a_group_belongs_to_all_its_columns(
    first: str, second: str, shown: str, headers: int
) -> None:
    table = grid(first, second, "North | 1 | 2 | 3 | 4", "South | 5 | 6 | 7 | 8", headers=headers)
    outer, inner = ([text.strip() for text in row.split("|")] for row in (first, second))
    labels = [f"{outer[at]} > {inner[at + shift]}" for at in (1, 3) for shift in (0, 1)]
    values = [f"{label}: {value}" for label, value in zip(labels, "1234", strict=True)]
    assert texts(table, guess_header=headers == 0)[0] == " | ".join([shown, *values])


@pytest.mark.parametrize(
    "rows",
    [
        (" | a | | b | ", "x | c | d | e | f", "y | g | h | i | j"),  # texts of several kinds
        (" | 1 | | 2 | ", "x | c | d | c | d", "y | g | h | i | j"),  # numbers
        (" | a | | b | ", "x | c | | c | d", "y | 1 | 2 | 3 | 4"),  # a column without a name
    ],
)
def test_a_sparse_first_row_of_data_names_no_groups(rows: tuple[str, ...]) -> None:
    assert not any(":" in text for text in texts(grid(*rows), guess_header=True))


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (("Item | Price | Price", "Nail | 1 | 2"), "Item: Nail | Price: 1 | Price: 2"),
        (("Item | Price | | Left", "Nail | 1 | new | 2"), "Item: Nail | Price: 1 | new | Left: 2"),
        (("Who | 2024-01-01 | 2024-01-02", "Ann | a | b", "Ben | b | a"),
         "Who: Ann | 2024-01-01: a | 2024-01-02: b"),
        (("Week | 1 | 2", "Ann | a | b", "Ben | b | a"), "Week: Ann | 1: a | 2: b"),
        (("Week | 1 | 2", "Ann | 3 | 4", "Ben | 5 | 6"), "Week | 1 | 2"),
        (("Who | 3 | 5", "Ann | a | b", "Ben | b | a"), "Who | 3 | 5"),
        (("Who | 2024-01-01 | 2024-01-02", "Ann | 2024-02-03 | b", "Ben | b | a"),
         "Who | 2024-01-01 | 2024-01-02"),
        (("Item | | | Left", "Nail | 1 | new | 2"), "Item |  |  | Left"),
    ],
)  # fmt: skip
def test_rows_of_repeated_missing_and_counting_names(rows: tuple[str, ...], shown: str) -> None:
    assert texts(grid(*rows), guess_header=True)[0] == shown


def test_rows_of_a_group_are_led_by_its_name_and_the_total_is_not() -> None:
    table = grid(
        "Item | Price", "Fruit | ", "Apple | 1", "Pear | 2", "Roots | ", "Leek | 4", "Total | 7",
        "* without tax | ", headers=1,
    )  # fmt: skip
    blocks = [*make_table_blocks(table.build())]
    assert [(block.text, block.leads) for block in blocks] == [
        ("Item: Fruit", ()),
        ("Item: Apple | Price: 1", ("Fruit",)),
        ("Item: Pear | Price: 2", ("Fruit",)),
        ("Item: Roots", ()),
        ("Item: Leek | Price: 4", ("Roots",)),
        ("Item: Total | Price: 7", ()),
        ("* without tax", ()),
    ]


def test_a_row_without_values_below_rows_with_values_names_no_group() -> None:
    table = grid(
        "Item | Price", "Apple | 1", "Pear | ", "Leek | 4", "Cress | ", "Rye | 1", headers=1
    )
    assert not any(block.leads for block in make_table_blocks(table.build()))


def test_tables_side_by_side_repeat_their_header() -> None:
    rows = ["Week | Topic | Week | Topic", "1 | Lists | 5 | Trees", "2 | Maps | 6 | Graphs"]
    assert texts(grid(*rows), guess_header=True) == [
        "Week: 1 | Topic: Lists | Week: 5 | Topic: Trees",
        "Week: 2 | Topic: Maps | Week: 6 | Topic: Graphs",
    ]


def test_a_header_whose_label_is_shortened_is_a_row_too() -> None:
    long = "Fee of the harbour " * 12
    first, row = texts(grid(f"Port | {long}", "Kiel | 9", headers=1))
    assert first == f"Port | {long.strip()}"
    assert row.startswith("Port: Kiel | Fee of the harbour") and row.endswith(" …: 9")


def test_long_text_beside_a_nested_table_is_kept() -> None:
    inner = grid("Port | Fee", "Kiel | 9", headers=1).build()
    outer = TableBuilder()
    long = "What the master of the harbour said about it. " * 8
    outer.begin_row(1)
    outer.add(long, inner=(inner,))
    outer.begin_row(2)
    outer.add("Short.", inner=(inner,))
    assert texts(outer) == [long.strip(), "Port: Kiel | Fee: 9", "Short. | Port: Kiel | Fee: 9"]


def test_names_above_the_middle_of_their_groups_name_all_columns_of_the_groups() -> None:
    rows = [" | | In | | | Out | ", "Year | A | B | C | A | B | C", "Actual", "1996|1|2|3|4|5|6"]
    assert texts(grid(*rows), guess_header=True)[1] == (
        "Year: 1996 | In > A: 1 | In > B: 2 | In > C: 3 | Out > A: 4 | Out > B: 5 | Out > C: 6"
    )
