"""Tables, superscripts and subscripts of Pandoc's Markdown."""

from time import process_time

import pytest

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract


def read(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/markdown")


def texts(text: str) -> list[str]:
    return [block.text for block in read(text)]


GRID = """
+-------+--------+
| Fruit | Price  |
+=======+========+
| Fig   | 3 *or* |
|       | 4      |
+-------+--------+
| Plum  | 5      |
+-------+--------+

: Fruit of
  the day

After.
"""
SIMPLE = """
  Right     Left
-------     ------
     12     ab
    123

Table: Widths.
"""
MULTILINE = """
----------------------------
 Name    Long
         text
-------- -------------------
 First   A row that spans
         two lines.

 Second  Another.
----------------------------
"""


def test_grid_tables_have_their_header_and_caption() -> None:
    caption, fig, plum, after = read(GRID)
    assert (fig.text, fig.leads) == ("Fruit: Fig | Price: 3 or 4", ("Fruit of the day",))
    assert (caption.text, plum.text, after.text) == (
        "Fruit of the day",
        "Fruit: Plum | Price: 5",
        "After.",
    )
    assert (fig.first_line, plum.first_line) == (5, 8)


def test_simple_and_multiline_tables_are_cut_at_their_lines() -> None:
    assert texts(SIMPLE) == ["Widths.", "Right: 12 | Left: ab", "Right: 123"]
    assert texts(MULTILINE) == [
        "Name: First | Long text: A row that spans two lines.",
        "Name: Second | Long text: Another.",
    ]


SPANNED = """
+---------------------+-------+
| Location            | °C    |
|                     +---+---+
|                     | a | b |
+=============+=======+===+===+
| North       | min   | 1 | 2 |
| coast       +-------+---+---+
|             | max   | 3     |
+-------------+-------+-------+
"""


def test_cells_of_grid_tables_span_rows_and_columns() -> None:
    assert texts(SPANNED) == [
        "Location: North coast | Location: min | °C > a: 1 | °C > b: 2",
        "Location: North coast | Location: max | °C > a: 3 | °C > b: 3",
    ]


def test_tables_without_names_have_lines_above_and_below() -> None:
    simple = "Text.\n\n------ ----\nFig    3\nPlum   5\n------ ----\n\n: Prices\n"
    assert texts(simple) == ["Text.", "Prices", "Fig | 3", "Plum | 5"]
    multiline = "------ -----\nFig    ripe\n       fruit\n\nPlum   5\n------ -----\n"
    assert texts(multiline) == ["Fig | ripe fruit", "Plum | 5"]


@pytest.mark.parametrize(
    "text",
    [
        "+---+---+\n| a | b |\n",  # no end
        "+---+---+\n| a | b |\n+---+\n",
        "---\n\nText below a line\n",
        "Title\n-----\n\nText\n",
        "--- ---\n\nx\n",
        "--- ---\nonly one\n--- ---\n",
    ],
)
def test_text_that_only_begins_like_a_table_is_no_table(text: str) -> None:
    assert not any(block.kind == "table" for block in read(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("H~2~O and 10^-3^ m^2^", "H_2O and 10^-3 m^2"),
        ("the 3^rd^ of May", "the 3rd of May"),
        ("a^2+b^2=c^2", "a^2+b^2=c^2"),
        ("2^10 or ~5 and ~6", "2^10 or ~5 and ~6"),
        ("~/a~b and x~~old~~", "~/a~b and x"),
    ],
)
def test_superscripts_and_subscripts_are_read(text: str, shown: str) -> None:
    assert texts(text)[0] == shown


@pytest.mark.parametrize(
    "part",
    [
        "--- ---\nx\n--- ---\n\n", "-- ---\nx\n", "---\nx\n-- --\n\n", "+--+\n", "a~b^",
        "+-+-+\n| +-+\n", "| +-+\n", "a\n: b\n", ": b\n", "a\n\n: ", "- a\n  : b\n",
    ],
)  # fmt: skip
def test_hostile_tables_take_bounded_time(part: str) -> None:
    begin = process_time()
    read(part * 20_000)
    assert process_time() - begin < 30


MULTI = """
|        |      Fares      ||
Route    |  Adult  |  Child  |
-------- | :-----: | ------: |
North    |  **40** |  *35*  |
South    |     closed       ||

East     |     70  |     35  |
[Fares of 2026]

After.
"""


def test_a_table_of_multimarkdown_has_groups_spans_parts_and_a_caption() -> None:
    assert texts(MULTI) == [
        "Fares of 2026",
        "Route: North | Fares > Adult: 40 | Fares > Child: 35",
        "Route: South | Fares > Adult: closed | Fares > Child: closed",
        "Route: East | Fares > Adult: 70 | Fares > Child: 35",
        "After.",
    ]


def test_a_table_of_multimarkdown_ends_above_another_table() -> None:
    table = MULTI.partition("\n[")[0]
    assert texts(f"{table}\n\n|Boat|Crew|\n|-|-|\n|Alva|4|\n")[-2:] == [
        "Route: East | Fares > Adult: 70 | Fares > Child: 35",
        "Boat: Alva | Crew: 4",
    ]


def test_two_bars_are_an_empty_cell_in_a_plain_table() -> None:
    table = "|a|b|c|\n|-|-|-|\n|1||3|\n"
    assert texts(f"{table}\n{table}") == ["a: 1 | b: | c: 3"] * 2


@pytest.mark.parametrize(
    ("above", "table", "read_as"),
    [
        (
            "|Boat|Crew|\n|-|-|\n" + "|Alva|4|\n" * 9,
            "|Day|Fee|\n|-|-|\n|1|2|\n[Fees]",
            ["Fees", "Day: 1 | Fee: 2"],
        ),
        (
            "+--+\n" + "|  |\n" * 9,
            "+-----+-----+\n| Day | Fee |\n+=====+=====+\n| 1   | 2   |\n+-----+-----+",
            ["Day: 1 | Fee: 2"],
        ),
    ],
    ids=["caption", "grid"],
)
def test_a_table_in_a_footnote_is_read_below_lines_without_such_a_table(
    above: str, table: str, read_as: list[str]
) -> None:
    footnote = "Fees.[^1]\n\n[^1]:\n" + "".join(f"    {line}\n" for line in table.split("\n"))
    assert texts(f"{above}\n\n{footnote}")[-len(read_as) :] == read_as


@pytest.mark.parametrize(
    "lines", ["|a|b|\n|-|\n", "|a|\n|=|\n|b|c|\n", "|a|\n\n", "|a|\n|a|\n|-|\n"]
)
def test_lines_that_begin_many_tables_are_searched_once(lines: str) -> None:
    begun = process_time()
    read(lines * 8000)
    assert process_time() - begun < 15
