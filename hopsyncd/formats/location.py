"""Where a passage stands in its document: what a media type's documents are counted in.

A block and a placement have two integers, the first and the last of what their document is
counted in. For text these are lines. For a sheet they are cells, numbered row by row, of which
the first is the upper left and the last the lower right corner of a range.
"""

from collections.abc import Sequence

ODT = "application/vnd.oasis.opendocument.text"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = f"{_OFFICE}wordprocessingml.document"
PPTX = f"{_OFFICE}presentationml.presentation"
XLSX = f"{_OFFICE}spreadsheetml.sheet"
EPUB = "application/epub+zip"
IPYNB = "application/x-ipynb+json"
PDF = "application/pdf"
RTF = "application/rtf"

_UNITS = {
    **dict.fromkeys((DOCX, ODT, RTF), "paragraph"),
    PPTX: "slide",
    XLSX: "range",
    EPUB: "chapter",
    IPYNB: "cell",
    PDF: "page",
}
_COLUMNS = 16_384  # of the widest sheet that the format allows


def unit_of(media_type: str) -> str:
    """What the numbers of a placement count in a document of this type."""
    return _UNITS.get(media_type.partition(";")[0].strip().lower(), "line")


def cell_number(row: int, column: int) -> int:
    """The number of a sheet's cell; row and column are 1-based.

    >>> cell_number(1, 1), cell_number(2, 3)
    (1, 16387)
    """
    return (row - 1) * _COLUMNS + column


def cell_name(number: int) -> str:
    """The name that spreadsheet programs show for a cell.

    >>> cell_name(cell_number(2, 3)), cell_name(cell_number(10, 28))
    ('C2', 'AB10')
    """
    row, column = divmod(number - 1, _COLUMNS)
    letters = ""
    column += 1
    while column:
        column, digit = divmod(column - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return f"{letters}{row + 1}"


def location_text(unit: str, first: int, last: int, heading: Sequence[str]) -> str:
    """A location for people; of a sheet's passage, `heading` begins with the sheet's name.

    >>> location_text("page", 3, 4, ()), location_text("line", 7, 7, ())
    ('pages 3-4', 'line 7')
    >>> location_text("range", 1, cell_number(2, 3), ("Staff",))
    'Staff!A1:C2'
    """
    if unit == "range":
        cells = cell_name(first) if first == last else f"{cell_name(first)}:{cell_name(last)}"
        return f"{heading[0]}!{cells}" if heading else cells
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"
