"""Workbooks of Excel 97 to 2003: their values, number formats and styles."""

import io
from datetime import date
from time import process_time

import pytest
import xlwt

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.media_types import XLS
from hopsyncd.formats.readers import extract
from hopsyncd.formats.xls_styles import Style, read_styles
from tests.unit.test_spreadsheets import cells, rows


def test_sheets_of_excel_97_are_read() -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Staff")
    for index, row in enumerate(cells(["Name", "Wage", "Since"], ["Ada", 40.5, date(2024, 5, 7)])):
        for column, value in enumerate(row):
            style = xlwt.easyxf(num_format_str="YYYY-MM-DD" if column == 2 and index else "General")
            sheet.write(index, column, value, style)
    buffer = io.BytesIO()
    book.save(buffer)
    heading, found = extract(buffer.getvalue(), XLS)
    assert (heading.text, found.text) == ("Staff", "Name: Ada | Wage: 40.5 | Since: 2024-05-07")
    with pytest.raises(DocumentUnreadable):
        extract(buffer.getvalue()[:600], XLS)


def test_old_workbooks_show_numbers_in_their_formats() -> None:
    book = xlwt.Workbook()
    columns = [
        ("Share", "0.0%", 0.075, "7.5%"),
        ("Price", '#,##0.00 "€"', 1234.5, "1,234.50 €"),
        ("Day", "DD.MM.YYYY", 45_418, "06.05.2024"),
        ("Count", "General", 12, "12"),
    ]
    for sheet in (book.add_sheet("First"), book.add_sheet("Second")):
        for column, (name, number_format, value, _) in enumerate(columns):
            sheet.write(0, column, name)
            for row in (1, 2):
                sheet.write(row, column, value, xlwt.easyxf(num_format_str=number_format))
    buffer = io.BytesIO()
    book.save(buffer)
    line = " | ".join(f"{name}: {shown}" for name, _, _, shown in columns)
    assert rows(extract(buffer.getvalue(), XLS)) == [line] * 4


def test_a_bold_row_of_an_old_workbook_names_the_columns() -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("S")
    for index, row in enumerate((["Who", "+/-"], ["Ben", "up"], ["Eve", "down"])):
        for column, text in enumerate(row):
            sheet.write(
                index, column, text, xlwt.easyxf(f"font: bold {'on' if index < 1 else 'off'}")
            )
    buffer = io.BytesIO()
    book.save(buffer)
    assert rows(extract(buffer.getvalue(), XLS)) == ["Who: Ben | +/-: up", "Who: Eve | +/-: down"]


def test_the_styles_of_a_damaged_old_workbook_are_left_out() -> None:
    book = xlwt.Workbook()
    book.add_sheet("S").write(0, 0, 0.5, xlwt.easyxf(num_format_str="0%"))
    buffer = io.BytesIO()
    book.save(buffer)
    data = buffer.getvalue()
    assert read_styles(data) == {"S": {(1, 1): Style("0%")}}
    for size in range(0, len(data), 97):
        read_styles(data[:size])
    assert read_styles(b"no workbook") == {}


def test_empty_cells_of_an_old_workbook_cost_little() -> None:
    book = xlwt.Workbook()
    for number in range(2):
        sheet = book.add_sheet(f"S{number}")
        sheet.write(0, 0, "Port")
        sheet.write(65_535, 200, "Kiel")
    buffer = io.BytesIO()
    book.save(buffer)
    begun = process_time()
    assert rows(extract(buffer.getvalue(), XLS)) == ["Port", "Kiel"] * 2
    assert process_time() - begun < 9


def test_an_old_workbook_with_a_password_is_named_as_such() -> None:
    book = xlwt.Workbook()
    book.add_sheet("S").write(0, 0, "Port")
    buffer = io.BytesIO()
    book.save(buffer)
    data = buffer.getvalue()
    # The record after the begin of the workbook becomes one that asks for a password.
    begin = data.index(b"\x09\x08\x10\x00")
    changed = data[: begin + 20] + b"\x2f\x00" + data[begin + 22 :]
    with pytest.raises(DocumentUnreadable, match="password"):
        extract(changed, XLS)
