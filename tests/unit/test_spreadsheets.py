"""Workbooks: what a sheet shows is what is read, under the headers it stands under."""

import inspect
import io
import sys
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from time import process_time
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.styles import Font
from openpyxl.worksheet.table import Table

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import ODS, XLSX
from hopsyncd.formats.readers import extract
from hopsyncd.formats.sheets import SheetCell, SheetRow
from hopsyncd.formats.spreadsheet import _read_tables

_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"


def read(book: Any) -> tuple[Block, ...]:
    buffer = io.BytesIO()
    book.save(buffer)
    return extract(buffer.getvalue(), XLSX)


def cells(*rows: list[Any]) -> tuple[list[Any], ...]:
    return rows


def rows(blocks: tuple[Block, ...]) -> list[str]:
    return [block.text for block in blocks if block.kind == "table"]


@pytest.mark.parametrize(
    ("value", "number_format", "shown"),
    [
        (0.075, "0.0%", "7.5%"),
        (56701.0309278351, '"$"#,##0.00', "$56,701.03"),
        (5, '_-* #,##0.00\\ "€"_-', "5.00 €"),
        (date(2024, 5, 6), "DD.MM.YYYY", "06.05.2024"),
        (datetime(2024, 5, 6, 14, 30), "d.m.yy hh:mm", "6.5.24 14:30"),
        (datetime(2024, 5, 6, 14, 30, 1), '"am" dd.mm. [$-407]mm:ss.0', "am 06.05. 30:01.0"),
        (timedelta(hours=30, minutes=15), "[h]:mm", "30:15"),
        (1234.5, "0.00E+00", "1.23E+03"),
        (0.1 + 0.2, "General", "0.3"),
        (3.0, "General", "3"),
        (123456789012345, "General", "123456789012345 (1.23457E+14)"),
        (datetime(2024, 3, 5), "mm-dd-yy", "2024-03-05"),
        (date(2024, 3, 5), "yyyy-mm-dd", "2024-03-05"),
        (datetime(2024, 3, 5), "mmm yyyy", "Mar 2024"),
        (True, "General", "TRUE"),
        (7, ";;;", "7"),
        (7, '0 "bad', "7 bad"),
        (7.5, '0 "' + "a" * 300 + '"', "7.5"),  # longer than any program writes
    ],
)
def test_numbers_stand_as_the_sheet_shows_them(
    value: object, number_format: str, shown: str
) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Name", "Value"])
    book.active.append(["x", value])
    book.active["B2"].number_format = number_format
    assert rows(read(book)) == [f"Name: x | Value: {shown}"]


def test_merged_headers_name_the_columns_below_them() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in cells(["Route", "Fare", None], [None, "Low", "High"], ["North", 110, 310]):
        sheet.append(row)
    sheet.merge_cells("A1:A2")
    sheet.merge_cells("B1:C1")
    assert rows(read(book)) == ["Route: North | Fare > Low: 110 | Fare > High: 310"]


def test_a_title_above_the_header_leads_each_row() -> None:
    book = openpyxl.Workbook()
    for row in cells(["Crew of 2025", None], ["Name", "Wage"], ["Ada", 40]):
        book.active.append(row)
    book.active.merge_cells("A1:B1")
    (found,) = [block for block in read(book) if block.kind == "table"]
    assert (found.text, found.leads) == ("Name: Ada | Wage: 40", ("Crew of 2025",))


def test_adjacent_tables_keep_their_own_headers() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in cells(["Name", "Age"], ["Ada", 40], ["Bob", 50]):
        sheet.append(row)
    for index, row in enumerate(cells(["Port", "Fee"], ["Kiel", 9], ["Riga", 7]), 2):
        sheet.cell(index, 4, row[0])
        sheet.cell(index, 5, row[1])
    assert sorted(rows(read(book))) == [
        "Name: Ada | Age: 40",
        "Name: Bob | Age: 50",
        "Port: Kiel | Fee: 9",
        "Port: Riga | Fee: 7",
    ]


def test_an_empty_column_inside_a_table_separates_nothing() -> None:
    book = openpyxl.Workbook()
    for row in cells(["Zone", None, "Sales"], ["North", None, 12], ["South", None, 9]):
        book.active.append(row)
    assert [row.split(" | ")[0] for row in rows(read(book))][-2:] == ["Zone: North", "Zone: South"]


def test_tables_that_touch_at_a_corner_keep_their_own_headers() -> None:
    book = openpyxl.Workbook()
    for row in (
        ["Hut", "Beds", None, None],
        ["Skarvbu", 12, None, None],
        ["Ternebu", 8, None, None],
        [None, None, "Boat", "Berths"],
        [None, None, "Alva", 4],
        [None, None, "Brage", 6],
    ):
        book.active.append(row)
    assert rows(read(book))[1:3] == ["Hut: Ternebu | Beds: 8", "Boat: Alva | Berths: 4"]


def test_a_single_row_next_to_a_table_is_not_a_table() -> None:
    book = openpyxl.Workbook()
    for row in (
        ["Hut", "Beds", None, None, None],
        ["Skarvbu", "Ternebu", None, "Open", "Closed"],
    ):
        book.active.append(row)
    assert rows(read(book)) == ["Hut: Skarvbu | Beds: Ternebu | Open | Closed"]


TABLES = 150
COLUMNS = {
    "to the right": range(TABLES),
    "to the left": range(TABLES, 0, -1),
    "zigzag inwards": [step // 2 if step % 2 else TABLES - step // 2 for step in range(TABLES)],
    "zigzag outwards": [
        TABLES // 2 + (step // 2 if step % 2 else -1 - step // 2) for step in range(TABLES)
    ],
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_many_tables_that_touch_at_corners_need_no_deep_recursion(columns: Sequence[int]) -> None:
    steps = [
        SheetRow(2 * step + below, 2 * step + below, (*[SheetCell("")] * column, SheetCell(text)))
        for step, column in enumerate(columns)
        for below, text in enumerate(("Fee", "3"))
    ]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        read_blocks = [*_read_tables(steps)]
    finally:
        sys.setrecursionlimit(limit)
    assert [block.text for block in read_blocks] == ["Fee", "3"] * TABLES


def test_a_million_empty_rows_take_little_longer_than_to_walk_through_them() -> None:
    book = openpyxl.Workbook()
    for row in cells(["Port", "Fee"], ["Kiel", 9], ["Riga", 7]):
        book.active.append(row)
    book.active.cell(1_048_576, 1, "end of the sheet")
    buffer = io.BytesIO()
    book.save(buffer)
    begun = process_time()
    for _ in openpyxl.load_workbook(buffer, read_only=True).active.iter_rows(values_only=True):
        pass
    walked = process_time() - begun
    blocks = extract(buffer.getvalue(), XLSX)
    assert process_time() - begun < 4 * walked
    assert rows(blocks) == ["Port: Kiel | Fee: 9", "Port: Riga | Fee: 7", "end of the sheet"]


def test_formulas_without_a_saved_value_are_counted() -> None:
    book = openpyxl.Workbook()
    for row in cells(["Job", "Cost"], ["Caulking", "=2*3"], ["Rigging", "=3*4"]):
        book.active.append(row)
    assert count_skipped(read(book)) == {"formulas without a saved value": 2}


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ('t="d"><v>2020-02-30</v>', "2020-02-30"),
        ('t="d"><v>soon</v>', "soon"),
        ('t="n"><v>1000000000</v>', "1000000000"),
        ('t="n"><v>soon</v>', "soon"),
        ('t="n"><v>-5</v>', "1899-12-25"),
    ],
)
def test_an_impossible_date_costs_no_other_cell(cell: str, text: str) -> None:
    book = openpyxl.Workbook()
    for row in (["Name", "Born"], ["Ann", date(2020, 1, 2)], ["Bo", 44000]):
        book.active.append(row)
    book.active["B3"].number_format = "yyyy-mm-dd"
    whole, changed = io.BytesIO(), io.BytesIO()
    book.save(whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            data = source.read(name).decode()
            target.writestr(name, data.replace('t="n"><v>44000</v>', cell))
    blocks = extract(changed.getvalue(), XLSX)
    assert rows(blocks) == ["Name: Ann | Born: 2020-01-02", f"Name: Bo | Born: {text}"]


def test_merged_columns_cost_no_cell() -> None:
    book = openpyxl.Workbook()
    for row in (["Name", "Born"], ["Ann", 1990]):
        book.active.append(row)
    book.active.merge_cells("D1:E2")
    whole, changed = io.BytesIO(), io.BytesIO()
    book.save(whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b'"D1:E2"', b'"D:E"'))
    assert rows(extract(changed.getvalue(), XLSX)) == ["Name: Ann | Born: 1990"]


def test_comments_and_charts_are_read() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in cells(["Year", "Ducks"], [2019, 120], [2020, 135]):
        sheet.append(row)
    sheet["B2"].comment = Comment("Counted by Ilse.", "Ilse")
    chart = BarChart()
    chart.title = "Ducks on the pond"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "E2")
    blocks = read(book)
    assert ("note", "Counted by Ilse.") in [(b.kind, b.text) for b in blocks]
    assert ("figure", "Bar chart: Ducks on the pond") in [(b.kind, b.text) for b in blocks]


def test_a_long_sheet_repeats_its_header_and_keeps_its_rows() -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(["Berth", "Length"])
    for number in range(2500):
        sheet.append([f"B{number}", number])
    found = rows(read(book))
    assert (len(found), found[2400]) == (2500, "Berth: B2400 | Length: 2400")


def ods(table: str) -> bytes:
    names = f'xmlns:office="{_OFFICE}" xmlns:table="{_TABLE}" xmlns:text="{_TEXT}"'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "content.xml",
            f"<office:document-content {names}><office:body><office:spreadsheet>"
            f'<table:table table:name="Staff">{table}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return buffer.getvalue()


def cell(text: str, more: str = "") -> str:
    return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"


def test_sheets_of_opendocument_show_their_texts_and_spans() -> None:
    wide = 'table:number-columns-spanned="2"'
    found = extract(
        ods(
            f"<table:table-header-rows><table:table-row>{cell('Name')}{cell('Wage', wide)}"
            "<table:covered-table-cell/></table:table-row></table:table-header-rows>"
            f"<table:table-row>{cell('Ada')}{cell('7.5%')}{cell('$2')}</table:table-row>"
            '<table:table-row table:number-rows-repeated="1048576"><table:table-cell'
            ' table:number-columns-repeated="16384"/></table:table-row>'
        ),
        ODS,
    )
    assert [(block.kind, block.text) for block in found] == [
        ("heading", "Staff"),
        ("table", "Name: Ada | Wage: 7.5% | Wage: $2"),
    ]


@pytest.mark.parametrize("count", [5, 1500, 999999999])
def test_repeated_cells_keep_the_columns_of_an_opendocument_sheet(count: int) -> None:
    gap = '<table:table-cell table:number-columns-repeated="{}"/>'
    both = [f"{cell('N')}{gap.format(count)}{cell('O')}"]
    both += [f"{cell('x')}{gap.format(count - 1)}<table:table-cell/>{cell('y')}"]
    sheet = "".join(f"<table:table-row>{row}</table:table-row>" for row in both)
    assert rows(extract(ods(sheet), ODS)) == ["N: x | O: y"]
    many = cell("x", f'table:number-columns-repeated="{count}"')
    (row,) = rows(extract(ods(f"<table:table-row>{many}</table:table-row>"), ODS))
    assert row.count("x") == min(count, 1000)


def _sheet(*given: list[Any], bold: tuple[int, ...] = ()) -> list[str]:
    """The rows that are read of a sheet with these rows, some of them in bold."""
    book = openpyxl.Workbook()
    for row in given:
        book.active.append(row)
    for number in bold:
        for cell in book.active[number]:
            cell.font = Font(bold=True)
    return rows(read(book))


def test_a_form_has_no_header_and_a_bold_row_above_a_table_is_a_header() -> None:
    form = ["Name", "Ann"], ["Born", 1990], ["City", "Oslo"], ["Zip", 150]
    assert _sheet(*form) == ["Name | Ann", "Born | 1990", "City | Oslo", "Zip | 150"]
    headed = _sheet(["Field", "Entry"], *form, bold=(1,))
    assert headed[:2] == ["Field: Name | Entry: Ann", "Field: Born | Entry: 1990"]
    assert _sheet(*form, bold=(1, 2, 3, 4))[0] == "Name | Ann"


def test_rows_above_the_header_of_a_table_name_no_columns() -> None:
    read = _sheet(
        ["Customer", "Acme"],
        ["Sent", date(2024, 5, 1)],
        ["Item", "Number", "Each", "Sum"],
        ["Pen", 2, 1.5, 3],
        ["Ink", 1, 5, 5],
    )
    assert read == [
        "Customer | Acme",
        "Sent | 2024-05-01",
        "Item: Pen | Number: 2 | Each: 1.5 | Sum: 3",
        "Item: Ink | Number: 1 | Each: 5 | Sum: 5",
    ]


def test_a_bold_row_inside_a_column_of_numbers_begins_another_table() -> None:
    tables = ["Name", "Age"], ["Ann", 30], ["City", "People"], ["Oslo", 717]
    assert _sheet(*tables, bold=(1, 3)) == ["Name: Ann | Age: 30", "City: Oslo | People: 717"]
    notes = ["Name", "Note"], ["Ann", "cook"], ["Bo", "leads"], ["Cy", "driver"]
    assert _sheet(*notes, bold=(1, 3))[1] == "Name: Bo | Note: leads"


def test_numbers_and_truth_values_are_shown_differently() -> None:
    assert _sheet(["Boats", "Afloat"], [1, True], [0, False], [1, True]) == [
        "Boats: 1 | Afloat: TRUE",
        "Boats: 0 | Afloat: FALSE",
        "Boats: 1 | Afloat: TRUE",
    ]


@pytest.mark.parametrize(
    "first",
    [
        ["Table 1", "Response by state"],  # goes on as "Table 2"
        ["Dec-01", "to"],  # "to" stands below again
        ["Name:", "Ada"],  # a form
    ],
)
def test_a_first_row_of_data_names_no_column(first: list[str]) -> None:
    book = openpyxl.Workbook()
    for row in (first, ["Table 2", "to"], ["Apr-02", "Response by district"]):
        book.active.append(row)
    assert rows(read(book))[0] == " | ".join(first)


def test_a_repeated_header_inside_a_table_is_not_a_row() -> None:
    book = openpyxl.Workbook()
    for row in (["Port", "Ship"], ["Kiel", "Alva"], ["Port", "Ship"], ["Riga", "Brage"]):
        book.active.append(row)
    assert rows(read(book)) == ["Port: Kiel | Ship: Alva", "Port: Riga | Ship: Brage"]


def test_a_wide_table_may_name_columns_twice() -> None:
    book = openpyxl.Workbook()
    for row in cells(["Case", "Court", "Charge", "Bail", "Charge"], [7, "Kiel", "A", 90, "B"]):
        book.active.append(row)
    (found,) = rows(read(book))
    assert found == "Case: 7 | Court: Kiel | Charge: A | Bail: 90 | Charge: B"


@pytest.mark.parametrize("sign", ["filter", "table", "bold below a title"])
def test_a_row_marked_as_header_names_the_columns_whatever_its_text(sign: str) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    title = [["Fares of the ferry"]] if sign == "bold below a title" else []
    for row in [*title, ["Route", "Note", "Note"], ["North", "fast", "wet"], ["South", "x", "y"]]:
        sheet.append(row)
    if sign == "filter":
        sheet.auto_filter.ref = "A1:C3"
    elif sign == "table":
        sheet["C1"] = "Note2"  # the names in a table differ
        sheet["A3"] = "Route"  # what unmarked would be data
        sheet.add_table(Table(displayName="Fares", ref="A1:C3"))
    else:
        for cell in sheet[2]:
            cell.font = Font(bold=True)
    assert rows(read(book))[0].startswith("Route: North | Note: fast | Note")


def test_characters_that_excel_escapes_are_read() -> None:
    book = openpyxl.Workbook()
    book.active.append(["two_x000D_lines,_x0000_ 5_x00B0_C and _x005F_x0041_"])
    assert rows(read(book)) == ["two lines, 5°C and _x0041_"]


def test_a_workbook_without_a_part_that_the_library_wants_is_read() -> None:
    book = openpyxl.Workbook()
    for row in cells(["Port", "Fee"], ["Kiel", 9]):
        book.active.append(row)
    written, without = io.BytesIO(), io.BytesIO()
    book.save(written)
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(without, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                data = data.replace(b't="s"', b't="inlineStr"')
                for index, text in enumerate((b"Port", b"Fee", b"Kiel")):
                    data = data.replace(
                        b"<v>%d</v></c>" % index, b"<is><t>%s</t></is></c>" % text, 1
                    )
            if name != "xl/styles.xml":
                new.writestr(name, data)
    assert rows(extract(without.getvalue(), XLSX)) == ["Port: Kiel | Fee: 9"]


def test_names_of_groups_of_columns_belong_to_the_header_below_a_title() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["Budget of 2024", None, None, None, None],
        [None, "Q1", None, "Q2", None],
        ["Department", "Plan", "Actual", "Plan", "Actual"],
        ["Sales", 100, 95, 110, 120],
    ):
        sheet.append(row)
    for merged in ("A1:E1", "B2:C2", "D2:E2"):
        sheet.merge_cells(merged)
    assert rows(read(book)) == [
        "Department: Sales | Q1 > Plan: 100 | Q1 > Actual: 95 | Q2 > Plan: 110 | Q2 > Actual: 120"
    ]


def test_names_with_values_of_several_kinds_are_a_form() -> None:
    book = openpyxl.Workbook()
    pairs = cells(["Name", "Ada"], ["Born", date(1815, 12, 10)], ["Phone", "+49 431 1234"])
    for row in (*pairs, ["Boats", 3]):
        book.active.append(row)
    assert rows(read(book))[:2] == ["Name | Ada", "Born | 1815-12-10"]


def test_three_rows_of_merged_names_stay_together() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["Date", "Flights"],
        [None, "Day", None, "Night"],
        [None, "In", "Out", "In", "Out"],
        ["May", 1, 2, 3, 4],
        ["June", 5, 6, 7, 8],
    ):
        sheet.append(row)
    for merged in ("A1:A3", "B1:E1", "B2:C2", "D2:E2"):
        sheet.merge_cells(merged)
    assert rows(read(book))[0] == (
        "Date: May | Flights > Day > In: 1 | Flights > Day > Out: 2"
        " | Flights > Night > In: 3 | Flights > Night > Out: 4"
    )


def test_a_sheet_of_many_columns_is_read_in_linear_time() -> None:
    book = openpyxl.Workbook()
    for _ in range(2):
        book.active.append([1] * 16_384)
    begun = process_time()
    assert len(rows(read(book))) == 2
    assert process_time() - begun < 8
