"""What is read of PDF and of the documents of word processors, and what is not."""

import io
import zipfile
from collections.abc import Callable

import docx
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.media_types import DOCX, ODT, PDF, RTF
from hopsyncd.formats.readers import extract

Told = list[tuple[str, int, str]]


def told(data: bytes, media_type: str) -> Told:
    return [(block.kind, block.level, block.text) for block in extract(data, media_type)]


def pdf(draw: Callable[[Canvas], None], **options: object) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, **options)
    draw(canvas)
    canvas.save()
    return buffer.getvalue()


def lines(canvas: Canvas, *said: tuple[float, str]) -> None:
    """Lines of a size each, from the top of a page."""
    height = 800.0
    for size, text in said:
        canvas.setFont("Helvetica", size)
        canvas.drawString(50, height, text)
        height -= 40
    canvas.showPage()


BODY = "The harbour was calm that morning, and nobody had seen the boats come in."


def test_larger_type_is_a_heading_by_its_size_and_a_running_head_is_none() -> None:
    def draw(canvas: Canvas) -> None:
        lines(canvas, (20, "Sea"), (14, "Contents"), (14, "Tides . . . . . . 2"), (10, BODY))
        lines(canvas, (20, "Sea"), (14, "Tides"), (10, BODY), (10.5, BODY))

    assert [one for one in told(pdf(draw), PDF) if one[0] == "heading"] == [
        ("heading", 1, "Sea"),
        ("heading", 2, "Contents"),
        ("heading", 2, "Tides"),
    ]


def test_type_that_is_scaled_counts_as_large_as_it_is_shown() -> None:
    def draw(canvas: Canvas) -> None:
        for scale, height, text in ((20, 39, "Sea"), (10, 70, BODY)):
            canvas.saveState()
            canvas.scale(scale, scale)
            canvas.setFont("Helvetica", 1)
            canvas.drawString(1, height, text)
            canvas.restoreState()

    assert told(pdf(draw), PDF) == [("heading", 1, "Sea"), ("paragraph", 0, BODY)]


def test_a_pdf_that_takes_a_password_says_so() -> None:
    data = pdf(lambda canvas: lines(canvas, (10, BODY)), encrypt=StandardEncryption("secret"))
    with pytest.raises(DocumentUnreadable, match="protected by a password"):
        extract(data, PDF)


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def relations(**targets: str) -> str:
    rows = (
        f'<Relationship Id="r{kind}" Type="{REL}/{kind}" Target="{target}"/>'
        for kind, target in targets.items()
    )
    return f"<Relationships>{''.join(rows)}</Relationships>"


def test_notes_text_boxes_and_lists_of_a_docx_are_read_without_deleted_text() -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>Boxed</w:t></w:r></w:p></w:txbxContent>"
    body = (
        "<w:p><w:r><w:t>Seen</w:t><w:footnoteReference w:id='2'/></w:r>"
        "<w:del><w:r><w:delText>not</w:delText><w:t>gone</w:t></w:r></w:del>"
        f"<w:r><x:AlternateContent><x:Choice>{box}</x:Choice><x:Fallback>{box}</x:Fallback>"
        "</x:AlternateContent></w:r></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>Item</w:t></w:r></w:p>"
        "</w:sdtContent></w:sdt>"
        "<w:p><w:pPr><w:pStyle w:val='Own'/></w:pPr><w:r><w:t>Part</w:t></w:r></w:p>"
    )
    data = zipped(
        {
            "_rels/.rels": relations(officeDocument="main/d.xml"),
            "main/_rels/d.xml.rels": relations(styles="s.xml", footnotes="f.xml"),
            "main/d.xml": f"<w:document xmlns:w='{W}' xmlns:x='x'><w:body>{body}</w:body>"
            "</w:document>",
            "main/s.xml": f"<w:styles xmlns:w='{W}'><w:style w:styleId='Own'>"
            "<w:basedOn w:val='H'/></w:style><w:style w:styleId='H'><w:name w:val='Heading 2'/>"
            "</w:style></w:styles>",
            "main/f.xml": f"<w:footnotes xmlns:w='{W}'><w:footnote w:id='2'><w:p><w:r>"
            "<w:t>A note</w:t></w:r></w:p></w:footnote></w:footnotes>",
        }
    )
    assert told(data, DOCX) == [
        ("paragraph", 0, "Seen"),
        ("note", 0, "A note"),
        ("paragraph", 0, "Boxed"),
        ("list_item", 0, "Item"),
        ("heading", 2, "Part"),
    ]


def test_lists_titles_and_nested_tables_as_word_writes_them() -> None:
    document = docx.Document()
    document.add_heading("Sea", 0)
    document.add_paragraph("salt", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "Name"
    table.cell(0, 1).add_table(1, 1).cell(0, 0).text = "Tove"
    buffer = io.BytesIO()
    document.save(buffer)
    assert told(buffer.getvalue(), DOCX) == [
        ("heading", 1, "Sea"),
        ("list_item", 0, "salt"),
        ("table", 0, "Name | Tove"),
    ]


def test_what_an_odt_says_and_not_what_was_deleted() -> None:
    names = " ".join(
        f'xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"'
        for one in ("office", "text", "table")
    )
    body = (
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
        "<text:section><text:h text:outline-level='2'>Sea</text:h></text:section>"
        "<text:p>A<text:s/><text:span>calm</text:span><office:annotation><text:p>why?</text:p>"
        "</office:annotation> day<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>A note</text:p></text:note-body></text:note></text:p>"
        "<text:list><text:list-item><text:p>salt</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>Name</text:p></table:table-cell>"
        "<table:table-cell><text:p>Tove</text:p></table:table-cell></table:table-row></table:table>"
    )
    text = f"<office:body><office:text>{body}</office:text></office:body>"
    data = zipped({"content.xml": f"<office:document {names}>{text}</office:document>"})
    assert told(data, ODT) == [
        ("heading", 2, "Sea"),
        ("paragraph", 0, "A calm day"),
        ("note", 0, "why?"),
        ("note", 0, "A note"),
        ("list_item", 0, "salt"),
        ("table", 0, "Name | Tove"),
    ]


def test_rtf_has_paragraphs_rows_and_letters_of_all_kinds() -> None:
    data = (
        rb"{\rtf1\ansi{\fonttbl\f0 Arial;}\f0 Caf\'e9 \u8364?\par"
        rb"\trowd\cellx1\cellx2 Name\cell Tove\cell\row\pard end\par}"
    )
    assert told(data, RTF) == [
        ("paragraph", 0, "Café €"),
        ("table", 0, "Name | Tove"),
        ("paragraph", 0, "end"),
    ]
    with pytest.raises(DocumentUnreadable, match="is not RTF"):
        extract(b"plain", RTF)


def test_the_title_of_a_docx_stands_above_its_chapters() -> None:
    document = docx.Document()
    document.add_paragraph("For members only")
    document.add_heading("Sea", 0)
    document.add_heading("Tides", 1)
    document.add_paragraph("They turn.")
    document.add_heading("Boats", 1)
    buffer = io.BytesIO()
    document.save(buffer)
    assert told(buffer.getvalue(), DOCX) == [
        ("heading", 1, "Sea"),
        ("paragraph", 0, "For members only"),
        ("heading", 2, "Tides"),
        ("paragraph", 0, "They turn."),
        ("heading", 2, "Boats"),
    ]


def docx_table(*rows: tuple[str, ...]) -> list[str]:
    document = docx.Document()
    table = document.add_table(len(rows), len(rows[0]))
    for index, row in enumerate(rows):
        for column, text in enumerate(row):
            table.cell(index, column).text = text
    buffer = io.BytesIO()
    document.save(buffer)
    return [text for _, _, text in told(buffer.getvalue(), DOCX)]


def test_the_first_row_of_a_docx_table_names_its_columns_if_it_can() -> None:
    assert docx_table(("Name", "Boats"), ("Tove", "2"), ("Ada", "")) == [
        "Name: Tove | Boats: 2",
        "Name: Ada",
    ]
    assert docx_table(("Name:", "Tove"), ("Boats:", "two")) == ["Name: | Tove", "Boats: | two"]
    assert docx_table(("2024", "12"), ("2025", "13")) == ["2024 | 12", "2025 | 13"]


def test_rows_of_docx_tables_are_counted_with_the_first() -> None:
    document = docx.Document()
    table = document.add_table(2, 2)
    for index, text in enumerate(("Name", "Boats", "Tove", "2")):
        table.cell(index // 2, index % 2).text = text
    document.add_paragraph("end")
    buffer = io.BytesIO()
    document.save(buffer)
    assert [block.first_line for block in extract(buffer.getvalue(), DOCX)] == [2, 3]
