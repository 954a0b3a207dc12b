"""OpenDocument texts and presentations."""

import io
import zipfile

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import ODP, ODT
from hopsyncd.formats.readers import extract

_NAMES = (
    "office",
    "text",
    "table",
    "style",
    "draw",
    "dc",
    "meta",
    "presentation",
    "chart",
    "xlink",
    "fo",
    "svg",
)
SPACES = " ".join(f'xmlns:{name}="x:{name}"' for name in _NAMES)


def blocks_of(
    body: str, kind: str = "text", automatic: str = "", **parts: str
) -> tuple[Block, ...]:
    """Read a file with this body; each part is the content of another member, as `name=xml`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        content = f"{automatic}<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        for name, text in {"content": content, **parts}.items():
            archive.writestr(
                f"{name.replace('__', '/')}.xml", f"<office:x {SPACES}>{text}</office:x>"
            )
    return extract(buffer.getvalue(), ODT if kind == "text" else ODP)


def said(*texts: str) -> str:
    return "".join(f"<text:p>{text}</text:p>" for text in texts)


def cell(text: str, spans: str = "") -> str:
    return f"<table:table-cell {spans}>{said(text)}</table:table-cell>"


def row(*cells: str) -> str:
    return f"<table:table-row>{''.join(cells)}</table:table-row>"


COVERED = "<table:covered-table-cell/>"


def test_spans_and_header_rows_of_tables_are_read() -> None:
    head = row(
        cell("Region", 'table:number-rows-spanned="2"'),
        cell("Rate", 'table:number-columns-spanned="2"'),
        COVERED,
    ) + row(COVERED, cell("2024"), cell("2025"))
    rows = row(cell("North", 'table:number-rows-spanned="2"'), cell("510"), cell("330"))
    rows += row(COVERED, cell("620", 'table:number-columns-repeated="2"'))
    body = f"<table:table><table:table-header-rows>{head}</table:table-header-rows>{rows}"
    assert [block.text for block in blocks_of(body + "</table:table>")] == [
        "Region: North | Rate > 2024: 510 | Rate > 2025: 330",
        "Region: North | Rate > 2024: 620 | Rate > 2025: 620",
    ]


def test_a_first_row_that_is_not_marked_names_no_columns() -> None:
    rows = row(cell("Day"), cell("Dawn")) + row(cell("Monday"), cell("Ulf"))
    texts = [block.text for block in blocks_of(f"<table:table>{rows}</table:table>")]
    assert texts == ["Day | Dawn", "Monday | Ulf"]


def test_cells_with_the_style_of_table_headers_name_columns() -> None:
    style = '<style:style style:name="P7" style:parent-style-name="Table_20_Heading"/>'
    head = row(cell("Day"), cell("Dawn"))
    for name in ("Table_20_Heading", "P7"):
        styled = head.replace("<text:p>", f'<text:p text:style-name="{name}">')
        body = f"<table:table>{styled}{row(cell('Monday'), cell('Ulf'))}</table:table>"
        (block,) = blocks_of(body, automatic=style)
        assert block.text == "Day: Monday | Dawn: Ulf"


def test_raised_text_links_and_comments_are_read() -> None:
    styles = (
        '<office:automatic-styles><style:style style:name="T1">'
        '<style:text-properties style:text-position="super 58%"/></style:style>'
        "</office:automatic-styles>"
    )
    body = said(
        'Count 10<text:span text:style-name="T1">6</text:span> in '
        '<text:a xlink:href="tides.odt">tides</text:a>'
        "<office:annotation><dc:creator>Ada</dc:creator><dc:date>2024-05-07</dc:date>"
        "<text:p>Check</text:p></office:annotation>."
    )
    blocks = blocks_of(body, automatic=styles)
    assert [(block.kind, block.text) for block in blocks] == [
        ("paragraph", "Count 10^6 in tides."),
        ("note", "Ada: Check"),
    ]
    assert [(at, link.target) for at, link in blocks[0].links] == [(14, "tides.odt")]


def test_page_headers_and_metadata_are_read_once() -> None:
    header = f"<style:header>{said('Decision 17')}</style:header>"
    footer = f"<style:footer>{said('Text')}</style:footer>"
    page = f"<style:master-page>{header}{footer}</style:master-page>"
    meta = (
        "<office:meta><dc:title>Dues</dc:title><meta:initial-creator>Tove</meta:initial-creator>"
        "<dc:date>2024-05-07T10:00:00</dc:date></office:meta>"
    )
    blocks = blocks_of(said("Text"), meta=meta, **{"styles": page + page})
    assert [block.text for block in blocks if block.kind == "note"] == ["Decision 17"]
    assert count_skipped(blocks) == {"page headers and footers that repeat": 3}
    assert blocks[0].names == ("Dues",)
    assert blocks[0].properties == (("author", "Tove"), ("modified", "2024-05-07T10:00:00"))


def test_embedded_charts_are_read_once() -> None:
    head = f"<table:table-header-rows>{row(cell(''), cell('Cod'))}</table:table-header-rows>"
    chart = (
        "<office:body><office:chart><chart:chart chart:class='chart:circle'>"
        f"<chart:title>{said('Catch')}</chart:title>"
        f"<table:table>{head}{row(cell('May'), cell('4.5'))}</table:table></chart:chart>"
        "</office:chart></office:body>"
    )
    shown = '<draw:frame><draw:object xlink:href="./Object1"/></draw:frame>'
    blocks = blocks_of(said(shown, shown), Object1__content=chart)
    assert [block.text for block in blocks] == ["Pie chart: Catch", "May | Cod: 4.5"]


def test_slides_of_a_presentation_are_read_with_their_notes() -> None:
    def frame(kind: str, *texts: str) -> str:
        box = f"<draw:text-box>{said(*texts)}</draw:text-box>"
        return f'<draw:frame presentation:class="{kind}">{box}</draw:frame>'

    notes = f"<presentation:notes>{frame('notes', 'Thank Ada')}</presentation:notes>"
    page = f"<draw:page>{frame('outline', 'Oil')}{frame('title', 'Hull')}{notes}</draw:page>"
    last = f"<draw:page>{frame('title', 'Last')}</draw:page>"
    blocks = blocks_of(page + last, "presentation")
    assert [(block.level, block.text, block.first_line) for block in blocks] == [
        (1, "Hull", 1),
        (0, "Oil", 1),
        (2, "Notes", 1),
        (0, "Thank Ada", 1),
        (1, "Last", 2),
    ]


def test_a_table_that_repeats_without_end_is_bounded() -> None:
    wide = cell("x", 'table:number-columns-repeated="999999"')
    rows = f'<table:table-row table:number-rows-repeated="999999">{wide}</table:table-row>'
    blocks = blocks_of(f"<table:table>{rows}</table:table>")
    assert sum(block.text.count("x") for block in blocks) < 20_000


_BOLD = '<style:style style:name="B"><style:text-properties fo:font-weight="bold"/></style:style>'


def _styled(text: str) -> str:
    return f'<table:table-cell><text:p text:style-name="B">{text}</text:p></table:table-cell>'


def _table(*rows: str) -> str:
    return f"<table:table>{''.join(rows)}</table:table>"


def test_a_bold_first_row_names_the_columns() -> None:
    data = row(cell("Ann"), cell("cook")), row(cell("Bo"), cell("driver"))
    read = blocks_of(_table(row(_styled("Name"), _styled("Work")), *data), automatic=_BOLD)
    assert [block.text for block in read] == ["Name: Ann | Work: cook", "Name: Bo | Work: driver"]
    span = '<text:span text:style-name="B">{}</text:span>'
    spans = row(cell(span.format("Name")), cell(span.format("Work")))
    read = blocks_of(_table(spans, *data), automatic=_BOLD)
    assert read[0].text == "Name: Ann | Work: cook"
    partly = row(cell(span.format("Name") + " of"), cell(span.format("Work")))
    assert blocks_of(_table(partly, *data), automatic=_BOLD)[0].text == "Name of | Work"
    whole = _table(row(_styled("Ann"), _styled("cook")), row(_styled("Bo"), _styled("driver")))
    assert blocks_of(whole, automatic=_BOLD)[0].text == "Ann | cook"


def test_bold_rows_with_empty_cells_name_the_columns() -> None:
    data = row(*map(cell, ("North", "1", "2", "3", "4")))
    outer = row(cell(""), _styled("In"), cell(""), _styled("Out"), cell(""))
    inner = row(cell(""), *map(_styled, ("Plan", "Real", "Plan", "Real")))
    (read,) = blocks_of(_table(outer, inner, data), automatic=_BOLD)
    assert read.text == "North | In > Plan: 1 | In > Real: 2 | Out > Plan: 3 | Out > Real: 4"
    title = row(_styled("Budget"), *map(cell, ("", "", "", "")))
    assert blocks_of(_table(title, data), automatic=_BOLD)[0].text == "Budget"


def test_a_table_in_a_cell_and_a_title_across_name_what_they_should() -> None:
    head = "<table:table-header-rows>{}</table:table-header-rows>".format
    inner = _table(head(row(cell("Kind"), cell("Most"))), row(cell("Users"), cell("5")))
    outer = _table(
        head(row(cell("Plan"), cell("Limits"))),
        row(cell("Basic"), f"<table:table-cell>{inner}</table:table-cell>"),
    )
    assert [block.text for block in blocks_of(outer)] == [
        "Plan: Basic | Limits > Kind: Users | Limits > Most: 5"
    ]
    title = row(cell("Budget", 'table:number-columns-spanned="2"'), COVERED)
    below = row(cell("Item"), cell("Price")), row(cell("Pen"), cell("3"))
    assert [block.text for block in blocks_of(_table(head(title), *below))] == [
        "Budget",
        "Item: Pen | Price: 3",
    ]


def test_items_in_a_cell_and_the_title_of_a_picture_stand_apart() -> None:
    items = "".join(f"<text:list-item>{said(text)}</text:list-item>" for text in ("shop", "cook"))
    with_list = f"<table:table-cell><text:list>{items}</text:list></table:table-cell>"
    read = blocks_of(_table(row(cell("Ann"), with_list), row(cell("Bo"), cell("x"))))
    assert read[0].text == "Ann | shop; cook"
    frame = "<draw:frame><svg:title>A red boat</svg:title></draw:frame>"
    read = blocks_of(said(f"Before{frame}"))
    assert [(block.kind, block.text) for block in read] == [
        ("paragraph", "Before"),
        ("figure", "A red boat"),
    ]


def test_a_table_in_a_frame_is_read_like_a_table_of_its_own() -> None:
    inner = f"<table:table>{row(cell('A'), cell('B'))}{row(cell('1'), cell('2'))}</table:table>"
    frame = (
        "<table:table><table:table-row><table:table-cell>"
        f"{inner}</table:table-cell></table:table-row></table:table>"
    )
    assert [block.text for block in blocks_of(frame)] == ["A | B", "1 | 2"]
