"""Defines the media types of documents, and the unit that line numbers count in each type."""

from collections.abc import Sequence

from hopsyncd.formats.images import IMAGES

ODT = "application/vnd.oasis.opendocument.text"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = f"{_OFFICE}wordprocessingml.document"
PPTX = f"{_OFFICE}presentationml.presentation"
XLSX = f"{_OFFICE}spreadsheetml.sheet"
XLS = "application/vnd.ms-excel"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
EPUB = "application/epub+zip"
FICTION_BOOK = "application/x-fictionbook+xml"
IPYNB = "application/x-ipynb+json"
CANVAS = "application/x-canvas+json"
MBOX = "application/mbox"
OUTLOOK = "application/vnd.ms-outlook"
PDF = "application/pdf"
MAIL = "message/rfc822"
CALENDAR = "text/calendar"
RTF = "application/rtf"
ENEX, JEX, OPML = "application/enex+xml", "application/x-joplin-export", "text/x-opml"

_UNITS = {
    **dict.fromkeys((DOCX, ODT, RTF), "paragraph"),
    **dict.fromkeys((PPTX, ODP), "slide"),
    **dict.fromkeys((XLSX, XLS, ODS), "range"),
    **dict.fromkeys((EPUB, FICTION_BOOK), "chapter"),
    MBOX: "message",
    **dict.fromkeys((ENEX, JEX), "note"),
    OPML: "item",
    IPYNB: "cell",
    CANVAS: "card",
    **dict.fromkeys((PDF, *IMAGES), "page"),
}
_COLUMNS = 16_384  # the maximum in an Excel sheet


def find_unit(media_type: str) -> str:
    """Return the unit (line, page ...) that the line numbers of this type count."""
    return _UNITS.get(media_type.partition(";")[0].strip().lower(), "line")


def number_cell(row: int, column: int) -> int:
    """Return the number of a sheet's cell; row and column are 1-based.

    >>> number_cell(1, 1), number_cell(2, 3)
    (1, 16387)
    """
    return (row - 1) * _COLUMNS + column


def name_cell(number: int) -> str:
    """Return the name that spreadsheet programs show for a cell.

    >>> name_cell(number_cell(2, 3)), name_cell(number_cell(10, 28))
    ('C2', 'AB10')
    """
    row, column = divmod(number - 1, _COLUMNS)
    letters = ""
    column += 1
    while column:
        column, digit = divmod(column - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return f"{letters}{row + 1}"


def describe_location(unit: str, first: int, last: int, heading: Sequence[str]) -> str:
    """Describe the location from `first` to `last`, counted in `unit`, for people. For a sheet,
    `heading` must begin with the sheet's name.

    >>> describe_location("page", 3, 4, ()), describe_location("line", 7, 7, ())
    ('pages 3-4', 'line 7')
    >>> describe_location("range", 1, number_cell(2, 3), ("Staff",))
    'Staff!A1:C2'
    """
    if unit == "range":
        cells = name_cell(first) if first == last else f"{name_cell(first)}:{name_cell(last)}"
        return f"{heading[0]}!{cells}" if heading else cells
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"
