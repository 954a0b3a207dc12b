"""What is read of PDF beside plain lines: forms, tables, columns, notes, running heads."""

import io
import zlib
from collections.abc import Callable

import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import PDF
from hopsyncd.formats.pdf_layout import arrange
from hopsyncd.formats.pdf_spans import PageText, Span
from hopsyncd.formats.pdf_tables import PlacedTable
from hopsyncd.formats.readers import extract

BODY = "The harbour was calm that morning, and nobody had seen the boats come in."


def read(draw: Callable[[Canvas], None]) -> tuple[Block, ...]:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(600, 800))
    draw(canvas)
    canvas.save()
    return extract(buffer.getvalue(), PDF)


def texts(blocks: tuple[Block, ...]) -> list[str]:
    return [block.text for block in blocks if block.kind != "skipped"]


def test_form_values_stand_beside_their_labels_and_notes_are_kept() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(50, 700, "Berth:")
        canvas.acroForm.textfield(x=100, y=693, width=200, height=20, value="Quay 7", name="b")
        canvas.drawString(50, 650, "Insured:")
        canvas.acroForm.checkbox(x=110, y=645, size=18, checked=True, name="i")
        canvas.textAnnotation("Ask the harbour master", (400, 400, 420, 420))

    blocks = read(draw)
    said = "\n".join(texts(blocks))
    assert "Berth: Quay 7" in said.replace(" | ", " ")
    assert "Insured: [x]" in said.replace(" | ", " ")
    assert [block.text for block in blocks if block.kind == "note"] == ["Ask the harbour master"]


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Tides: annual report 2025", "heading"),
        ("PEATFLUX 3: assimilation of rain", "heading"),
        ("Photonics 2025: outlook", "heading"),
        ("Charter 77: a history", "heading"),
        ("Tablets 2024: survey", "heading"),
        ("Figure 1: Rain", "paragraph"),
        ("Figure 3-1: Rain", "paragraph"),
        ("Figures 3\u20134: Rain", "paragraph"),
        ("Table A1: Rain", "paragraph"),
        ("Tabelle 2a: Rain", "paragraph"),
        ("Abb. 4: Rain", "paragraph"),
        ("Tabellen 1\u20133: Regen", "paragraph"),
        ("Graphique 2: pluie", "paragraph"),
        ("Total: 8.214,00", "paragraph"),
    ],
)
def test_a_title_in_large_type_may_have_a_colon(title: str, kind: str) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(50, 750, title)
        canvas.setFont("Helvetica", 10)
        for y in (700, 686, 672):
            canvas.drawString(50, y, BODY)

    assert (kind, title) in [(block.kind, block.text) for block in read(draw)]


def test_a_total_in_large_type_is_no_heading() -> None:
    def draw(canvas: Canvas) -> None:
        for y in (700, 686, 672):
            canvas.setFont("Helvetica", 10)
            canvas.drawString(50, y, BODY)
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(50, 600, "Total due: 8 214 crowns")

    blocks = read(draw)
    assert [block.kind for block in blocks if "8 214" in block.text] == ["paragraph"]


def test_the_cells_of_a_table_stand_in_their_row_under_a_bold_header() -> None:
    def draw(canvas: Canvas) -> None:
        rows = (("Ship", "Cargo", "Tons"), ("Astrid", "Salt", "40"), ("Berta", "Rope", "12"))
        for index, row in enumerate((*rows, ("Clara", "Coal", "95"))):
            canvas.setFont("Helvetica-Bold" if not index else "Helvetica", 10)
            for column, text in enumerate(row):
                canvas.drawString(50 + 150 * column, 700 - 16 * index, text)

    assert texts(read(draw)) == [
        "Ship: Astrid | Cargo: Salt | Tons: 40",
        "Ship: Berta | Cargo: Rope | Tons: 12",
        "Ship: Clara | Cargo: Coal | Tons: 95",
    ]


@pytest.mark.parametrize("bold_rows", [0, 4])
def test_a_ruled_table_without_a_header_in_other_type_gets_none(bold_rows: int) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.grid([40, 190, 340], [640, 660, 680, 700, 720])
        for index, row in enumerate(
            (("a", "b"), ("Astrid", "40"), ("Berta", "12"), ("Clara", "95"))
        ):
            canvas.setFont("Helvetica-Bold" if index < bold_rows else "Helvetica", 10)
            canvas.drawString(50, 706 - 20 * index, row[0])
            canvas.drawString(200, 706 - 20 * index, row[1])

    assert texts(read(draw)) == ["a | b", "Astrid | 40", "Berta | 12", "Clara | 95"]


def test_lines_between_two_rules_are_rows_if_each_has_its_label() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.grid([40, 190, 340], [600, 680, 700])
        canvas.drawString(50, 686, "Owner")
        canvas.drawString(200, 686, "Anna Lie")
        for index, row in enumerate((("Make", "Saab"), ("Year", "1987"), ("Color", "Blue"))):
            canvas.drawString(50, 660 - 16 * index, row[0])
            canvas.drawString(200, 660 - 16 * index, row[1])

    assert texts(read(draw)) == ["Owner | Anna Lie", "Make | Saab", "Year | 1987", "Color | Blue"]


def test_two_columns_drawn_line_by_line_are_read_one_after_the_other() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        for index in range(12):
            y = 700 - 14 * index
            canvas.drawString(50, y, f"left line {index} of the long story here")
            canvas.drawString(320, y, f"right line {index} of the other story too")

    said = " ".join(texts(read(draw)))
    assert said.index("left line 11") < said.index("right line 0")


def test_running_heads_and_page_numbers_are_skipped_and_counted() -> None:
    def draw(canvas: Canvas) -> None:
        for page in range(1, 5):
            canvas.setFont("Helvetica", 9)
            canvas.drawString(50, 780, "Lofoten Harbour Report")
            canvas.drawString(290, 20, f"Page {page} of 4")
            for index in range(5):
                canvas.drawString(50, 600 - 14 * index, f"{BODY} Day {page * 10 + index}")
            canvas.showPage()

    blocks = read(draw)
    said = " ".join(texts(blocks))
    assert said.count("Lofoten Harbour Report") == 1
    assert "Page " not in said
    assert said.count("nobody") == 20
    assert count_skipped(blocks) == {"page headers and footers that repeat": 7}


def test_real_hyphens_stay_and_broken_words_are_joined() -> None:
    def draw(canvas: Canvas) -> None:
        for index, line in enumerate(
            (
                "The pilot is a man of the north and well-",
                "known along the coast; he has much infor-",
                "mation about the shoals and the currents.",
            )
        ):
            canvas.drawString(50, 700 - 14 * index, line)

    said = " ".join(texts(read(draw)))
    assert "well-known" in said
    assert "information" in said


def test_bookmarks_are_headings_and_superscripts_are_marked() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setTitle("On Tides")
        canvas.bookmarkPage("a")
        canvas.addOutlineEntry("Of the moon", "a", level=0)
        canvas.setFont("Helvetica", 10)
        canvas.drawString(50, 700, "Of the moon")
        for y in (660, 646):
            canvas.drawString(50, y, BODY)
        canvas.drawString(50, 600, "The basin holds 10")
        width = canvas.stringWidth("The basin holds 10", "Helvetica", 10)
        canvas.setFont("Helvetica", 6)
        canvas.drawString(50 + width, 604, "6")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(56 + width, 600, "litres.")

    blocks = read(draw)
    assert ("heading", "Of the moon") in [(block.kind, block.text) for block in blocks]
    assert "10^6 litres" in " ".join(texts(blocks))
    assert "On Tides" in blocks[0].names


def test_a_scan_with_a_small_line_of_text_is_counted() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawImage(ImageReader(Image.new("L", (60, 80), 200)), 0, 0, 600, 800)
        canvas.drawString(50, 20, "Page 1 of the file")

    assert count_skipped(read(draw)) == {"scanned pages": 1}


def test_a_damaged_file_says_what_to_do() -> None:
    with pytest.raises(DocumentUnreadable) as problem:
        extract(b"%PDF-1.7 no more", PDF)
    assert (problem.value.why, problem.value.hint) == (
        "Not a valid PDF",
        "Export the PDF again, or add it to `ignore`",
    )


def test_a_file_of_page_numbers_alone_is_not_empty() -> None:
    def draw(canvas: Canvas) -> None:
        for page in range(1, 4):
            canvas.drawString(50, 700, f"p{page}")
            canvas.showPage()

    assert texts(read(draw)) == ["p1", "p2", "p3"]


def test_rows_of_right_to_left_text_begin_at_the_right() -> None:
    spans = [
        Span("\u05d0\u05d1", 400, 0, 420, 10, 0),
        Span("\u05d2\u05d3", 100, 0, 120, 10, 1),
        Span("\u05d4\u05d5", 400, -20, 420, -10, 2),
        Span("\u05d6\u05d7", 100, -20, 120, -10, 3),
    ]
    (table,) = arrange(PageText(spans), [], 1)
    assert isinstance(table, PlacedTable)
    assert [[cell and cell.text for cell in row.cells] for row in table.table.rows] == [
        ["\u05d0\u05d1", "\u05d2\u05d3"],
        ["\u05d4\u05d5", "\u05d6\u05d7"],
    ]


def test_lines_with_superscripts_do_not_make_headings_of_the_others() -> None:
    def draw(page: Canvas) -> None:
        text = page.beginText(72, 700)
        text.setFont("Helvetica", 10)
        text.textOut("The pump moves water at a flow of twelve m")
        text.setRise(4)
        text.setFont("Helvetica", 7)
        text.textOut("3")
        text.setRise(0)
        text.setFont("Helvetica", 10)
        text.textLine(" an hour")
        page.drawText(text)
        page.drawString(72, 640, "Use four bolts.")

    assert {block.kind for block in read(draw)} == {"paragraph"}


def test_words_whose_letters_are_typed_apart_are_joined() -> None:
    def draw(canvas: Canvas) -> None:
        lines = (BODY, "T o t a l   D u e : 450 crowns", BODY, "I N V O I C E   9 9 8 1", BODY)
        kept = ("Marks a b c d and M T W T F S S and J F M A M J", BODY, "A B C D E F", BODY)
        for number, line in enumerate((*lines, *kept)):
            canvas.drawString(50, 700 - 20 * number, line)

    said = " ".join(texts(read(draw)))
    assert "Total Due: 450 crowns" in said
    assert "INVOICE 9981" in said
    assert "Marks a b c d and M T W T F S S and J F M A M J" in said
    assert "A B C D E F" in said


@pytest.mark.parametrize(("distance", "text"), [(10, "Total"), (13, "T o t a l")])
def test_letters_that_are_as_far_apart_as_columns_are_not_joined(distance: int, text: str) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Courier", 10)
        for number, letter in enumerate("Total"):
            canvas.drawString(50 + number * distance, 700, letter)

    assert texts(read(draw)) == [text]


@pytest.mark.parametrize("turns", [1, 3])
def test_a_table_that_lies_on_its_side_is_read_like_an_upright_one(turns: int) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(250, 20, "17")
        canvas.translate(600 if turns == 1 else 0, 0 if turns == 1 else 800)
        canvas.rotate(90 if turns == 1 else -90)
        canvas.drawString(60, 500, "Harbours of the northern coast, as of 2026")
        rows = (("Port", "Depth", "Fee"), ("Alva", "4", "310"), ("Brage", "3", "210"))
        for number, row in enumerate(rows):
            for x, text in zip((60, 160, 320), row, strict=True):
                canvas.drawString(x, 460 - 16 * number, text)

    said = texts(read(draw))
    assert said[0] == "Harbours of the northern coast, as of 2026"
    assert {"Port: Alva | Depth: 4 | Fee: 310", "Port: Brage | Depth: 3 | Fee: 210"} < {*said}


def pdf_of(*objects: str) -> bytes:
    """A PDF without a table of its objects, which PDFium makes anew. The first is the catalog."""
    numbered = (f"{number} 0 obj\n{text}\nendobj\n" for number, text in enumerate(objects, 1))
    return ("%PDF-1.7\n" + "".join(numbered) + "trailer <</Root 1 0 R>>\n%%EOF").encode()


def stream(content: str, head: str = "") -> str:
    return f"<<{head}/Length {len(content)}>>\nstream\n{content}\nendstream"


FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def test_text_of_a_signature_and_of_a_stamp_is_a_note() -> None:
    box = "/Type/XObject/Subtype/Form/BBox[0 0 200 40]/Resources<</Font<</F 4 0 R>>>>"
    blocks = extract(
        pdf_of(
            "<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[6 0 R]>>>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R"
            "/Resources<</Font<</F 4 0 R>>>>/Annots[6 0 R 8 0 R 9 0 R]>>",
            FONT,
            stream("BT /F 12 Tf 50 700 Td (The berth is let to the yard.) Tj ET"),
            "<</Type/Annot/Subtype/Widget/FT/Sig/T(s)/Rect[50 500 250 540]/F 4/AP<</N 7 0 R>>>>",
            stream("BT /F 24 Tf 0 10 Td (Signed by Ann Lee) Tj ET", box),
            "<</Type/Annot/Subtype/Stamp/Rect[50 400 250 440]/F 4/AP<</N 10 0 R>>>>",
            "<</Type/Annot/Subtype/Stamp/Rect[50 300 250 340]/F 4/Contents(Copy)/AP<</N 10 0 R>>>>",
            stream("BT /F 24 Tf 0 10 Td (PAID) Tj ET", box),
        ),
        PDF,
    )
    assert [(block.kind, block.text) for block in blocks] == [
        ("paragraph", "The berth is let to the yard.\nCopy"),
        ("note", "Signed by Ann Lee PAID"),
    ]


def test_characters_beyond_the_basic_plane_are_read_and_words_rejoined_beside_them() -> None:
    cmap = "1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <41> <d842df9f>"
    line = "marks the pages of a long list, and the next one is for the exami"
    (block,) = extract(
        pdf_of(
            "<</Type/Catalog/Pages 2 0 R>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R"
            "/Resources<</Font<</F 4 0 R>>>>>>",
            FONT.replace("/Type/Font", "/Type/Font/ToUnicode 6 0 R"),
            stream(f"BT /F 12 Tf 14 TL 50 700 Td (xAy {line}-) Tj T* (nation.) Tj ET"),
            stream(f"/CMapType 2 def {cmap} endbfchar endcmap"),
        ),
        PDF,
    )
    assert block.text == f"x\U00020b9fy {line}nation."


@pytest.mark.parametrize("is_compressed", [True, False])
@pytest.mark.parametrize(
    "ranges",
    [
        "1 beginbfrange <00fe><0101><0041> endbfrange",
        "1 beginbfrange <00fe> <0101> [<0041> <0042> <0043> <0044>] endbfrange",
        "2 beginbfrange\n<00fd><00fe><0040>\n<00ff><0101><0042>\nendbfrange",
    ],
)
def test_ranges_of_codes_may_cross_a_byte_as_macos_writes_them(
    ranges: str, is_compressed: bool
) -> None:
    head = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def"
    space = "1 begincodespacerange <0000> <FFFF> endcodespacerange"
    cmap = f"{head} {space}\n{ranges}\n1 beginbfchar <0005> <007A> endbfchar endcmap".encode()
    packed = zlib.compress(cmap, 1) if is_compressed else cmap
    filters = b"/Filter/FlateDecode" if is_compressed else b""
    made = pdf_of(
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R"
        "/Resources<</Font<</F 4 0 R>>>>>>",
        "<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/ToUnicode 6 0 R"
        "/DescendantFonts[<</Type/Font/Subtype/CIDFontType2/BaseFont/X/DW 600"
        "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>]>>",
        stream("BT /F 12 Tf 50 700 Td <00fe00ff010001010005> Tj ET"),
        "MAP",
    ).replace(b"MAP", b"<<%b/Length %d>>\nstream\n%b\nendstream" % (filters, len(packed), packed))
    (block,) = extract(made, PDF)
    assert block.text == "ABCDz"
