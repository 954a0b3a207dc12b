"""Word documents: tables, notes, numbers, values, fields and what stands in page margins."""

import io
import zipfile
from datetime import UTC, datetime
from time import process_time

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import DOCX
from hopsyncd.formats.readers import extract

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
REL = f"{OFFICE}/relationships"


def blocks_of(body: str, **parts: str) -> tuple[Block, ...]:
    """Read a document with this body; each part is the content of a file it refers to, as
    `kind=xml`."""
    relations = "".join(
        f'<Relationship Id="r{kind}" Type="{REL}/{kind}" Target="{kind}.xml"/>' for kind in parts
    )
    buffer = io.BytesIO()
    spaces = (
        f'xmlns:w="{W}" xmlns:r="{REL}" xmlns:m="{OFFICE}/math" xmlns:mc="mc" xmlns:c="c"'
        ' xmlns:dgm="dgm" xmlns:a="a" xmlns:wp="wp"'
    )
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "_rels/.rels",
            f'<Relationships><Relationship Id="a" Type="{REL}/officeDocument" Target="d.xml"/>'
            "</Relationships>",
        )
        archive.writestr("_rels/d.xml.rels", f"<Relationships>{relations}</Relationships>")
        archive.writestr("d.xml", f"<w:document {spaces}><w:body>{body}</w:body></w:document>")
        for kind, text in parts.items():
            archive.writestr(f"{kind}.xml", f"<w:part {spaces}>{text}</w:part>")
    return extract(buffer.getvalue(), DOCX)


def texts_of(body: str, **parts: str) -> list[str]:
    return [block.text for block in blocks_of(body, **parts)]


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def paragraph(*runs: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{''.join(runs)}</w:p>"


def cell(text: str, properties: str = "", more: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(run(text))}{more}</w:tc>"


def row(*cells: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def table(*rows: str, look: str = "") -> str:
    return f"<w:tbl><w:tblPr>{look}</w:tblPr>{''.join(rows)}</w:tbl>"


HEADED = "<w:tblHeader/>"
FIRST_ROW = '<w:tblLook w:val="0020"/>'


def test_merged_cells_keep_columns_and_groups_in_place() -> None:
    body = table(
        row(
            cell("Region", '<w:vMerge w:val="restart"/>'),
            cell("Rate", '<w:gridSpan w:val="2"/>'),
            properties=HEADED,
        ),
        row(cell("", "<w:vMerge/>"), cell("2024"), cell("2025"), properties=HEADED),
        row(cell("North", '<w:vMerge w:val="restart"/>'), cell("510"), cell("330")),
        row(cell("", "<w:vMerge/>"), cell("closed", '<w:gridSpan w:val="2"/>')),
        row(cell("620"), cell("630"), properties='<w:gridBefore w:val="1"/>'),
    )
    assert texts_of(body) == [
        "Region: North | Rate > 2024: 510 | Rate > 2025: 330",
        "Region: North | Rate > 2024: closed | Rate > 2025: closed",
        "Rate > 2024: 620 | Rate > 2025: 630",
    ]


def test_a_first_row_names_columns_only_where_the_table_says_so() -> None:
    rows = row(cell("Day"), cell("Dawn")), row(cell("Monday"), cell("Ulf"))
    assert texts_of(table(*rows)) == ["Day | Dawn", "Monday | Ulf"]
    assert texts_of(table(*rows, look=FIRST_ROW)) == ["Day: Monday | Dawn: Ulf"]
    form = row(cell("Name:"), cell("Tove")), row(cell("Boats:"), cell("2"))
    assert texts_of(table(*form, look=FIRST_ROW)) == ["Name: | Tove", "Boats: | 2"]


def test_deleted_text_and_rows_are_left_out_and_inserted_ones_kept() -> None:
    body = paragraph(
        run("Price: "),
        f"<w:del>{run('900')}</w:del><w:ins>{run('950')}</w:ins>",
        f"<w:moveFrom>{run(' gone')}</w:moveFrom><w:moveTo>{run(' crowns')}</w:moveTo>",
    ) + table(
        row(cell("a"), cell("b")),
        row(cell("old"), cell("c"), properties="<w:del/>"),
        row(cell("new"), cell("d"), properties="<w:ins/>"),
    )
    assert texts_of(body) == ["Price: 950 crowns", "a | b", "new | d"]


def test_notes_and_text_boxes_of_cells_follow_their_row_once() -> None:
    box = f"<w:r><w:txbxContent>{paragraph(run('Landing only'))}</w:txbxContent></w:r>"
    both = (
        f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent>"
    )
    note = '<w:r><w:footnoteReference w:id="3"/></w:r>'
    comment = '<w:r><w:commentReference w:id="0"/></w:r>'
    body = table(
        row(cell("Pilotage"), f"<w:tc>{paragraph(run('410'), note, note)}</w:tc>"),
        row(cell("Dock"), f"<w:tc>{paragraph(run('Pier'), both, comment)}</w:tc>"),
    )
    blocks = blocks_of(
        body,
        footnotes=f'<w:footnote w:id="3">{paragraph(run("Since May"))}</w:footnote>',
        comments=f'<w:comment w:id="0" w:author="Ada">{paragraph(run("Check"))}</w:comment>',
    )
    assert [(block.kind, block.text) for block in blocks] == [
        ("table", "Pilotage | 410"),
        ("note", "Since May"),
        ("table", "Dock | Pier"),
        ("paragraph", "Landing only"),
        ("note", "Ada: Check"),
    ]


def test_the_rows_of_a_table_in_a_cell_name_the_row_around_them() -> None:
    inner = table(row(cell("e"), cell("f"), properties=HEADED), row(cell("g"), cell("h")))
    body = table(row(cell("a"), cell("b")), row(cell("c", more=inner), cell("d")))
    assert texts_of(body) == ["a | b", "c | d", "c | e: g | f: h"]
    headed = table(
        row(cell("Plan"), cell("Limits"), properties=HEADED),
        row(cell("Basic"), cell("", more=inner)),
    )
    assert texts_of(headed) == ["Plan: Basic | Limits > e: g | Limits > f: h"]
    note = '<w:r><w:footnoteReference w:id="3"/></w:r>'
    said = f'<w:footnote w:id="3">{paragraph(run("Fares"))}{inner}</w:footnote>'
    assert texts_of(paragraph(run("Text"), note), footnotes=said) == [
        "Text",
        "Fares",
        "e: g | f: h",
    ]


def test_rows_into_which_header_cells_span_are_headers() -> None:
    down, on, two = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", '<w:gridSpan w:val="2"/>'
    head = row(cell("Site", down), cell("Water", two))
    names, data = (
        row(cell("", on), cell("Temp"), cell("pH")),
        row(cell("Alta"), cell("4"), cell("7")),
    )
    assert texts_of(table(head, names, data, look=FIRST_ROW)) == [
        "Site: Alta | Water > Temp: 4 | Water > pH: 7"
    ]
    numbers = row(cell("", on), cell("1"), cell("2"))
    assert (
        texts_of(table(head, numbers, data, look=FIRST_ROW))[0]
        == "Site: Site | Water: 1 | Water: 2"
    )


def test_a_title_above_the_names_of_columns_is_no_name() -> None:
    title = row(cell("Budget", '<w:gridSpan w:val="3"/>'))
    names = row(cell("Unit"), cell("Plan"), cell("Spent"))
    data = row(cell("IT"), cell("10"), cell("12"))
    assert texts_of(table(title, names, data, look=FIRST_ROW)) == [
        "Budget",
        "Unit: IT | Plan: 10 | Spent: 12",
    ]
    words = row(cell("IT"), cell("ten"), cell("twelve"))
    assert texts_of(table(title, names, words, look=FIRST_ROW)) == [
        "Budget",
        "Unit | Plan | Spent",
        "IT | ten | twelve",
    ]


def test_the_first_row_of_a_form_or_of_clauses_names_no_column() -> None:
    form = (
        row(cell("Name"), cell("Ann Bo")),
        row(cell("Born"), cell("1990")),
        row(cell("City"), cell("Oslo")),
    )
    read = ["Name | Ann Bo", "Born | 1990", "City | Oslo"]
    assert texts_of(table(*form, look=FIRST_ROW)) == read
    values = row(cell("Result"), cell("5.6 mmol/l")), row(cell("Range"), cell("3.5-5.1"))
    assert texts_of(table(*values, look=FIRST_ROW))[0] == "Result | 5.6 mmol/l"
    clause = "All goods are delivered within a month."
    clauses = row(cell(clause), cell("Yes")), row(cell("Payment is due in a week."), cell("No"))
    assert texts_of(table(*clauses, look=FIRST_ROW))[0] == f"{clause} | Yes"


def test_a_first_row_that_stands_out_names_columns() -> None:
    bold = [f"<w:tc>{paragraph(run(text, '<w:b/>'))}</w:tc>" for text in ("Field", "Value")]
    rest = row(cell("Born"), cell("1990")), row(cell("City"), cell("Oslo"))
    read = ["Field: Born | Value: 1990", "Field: City | Value: Oslo"]
    assert texts_of(table(row(*bold), *rest)) == read
    shade = '<w:shd w:val="clear" w:fill="D9E2F3"/>'
    assert texts_of(table(row(cell("Field", shade), cell("Value", shade)), *rest)) == read
    all_bold = row(*bold), row(*bold[::-1])
    assert texts_of(table(*all_bold)) == ["Field | Value", "Value | Field"]


def test_items_in_a_cell_are_separate_and_hidden_text_is_counted() -> None:
    item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="9"/></w:numPr>'
    items = "".join(paragraph(run(text), properties=item) for text in ("Shop", "Cook"))
    body = table(row(cell("Ann"), cell("Tasks", more=items)), row(cell("Bo"), cell("")))
    assert texts_of(body) == ["Ann | Tasks; Shop; Cook", "Bo"]
    blocks = blocks_of(paragraph(run("Seen"), run(" unseen", "<w:vanish/>")))
    assert blocks[0].text == "Seen"
    assert count_skipped(blocks) == {"hidden texts": 1}


def test_superscripts_subscripts_and_formulas_are_read() -> None:
    up, down = '<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>'
    body = paragraph(run("10"), run("-", up), run("6", up), run(" H"), run("2", down), run("O"))
    raised, lowered = '<w:position w:val="8"/>', '<w:position w:val="-1"/>'
    moved = paragraph(run("10"), run("6", raised), run(" cells, H"), run("2", lowered))
    assert texts_of(moved) == ["10^6 cells, H2"]
    fraction = (
        "<m:oMath><m:r><m:t>x=</m:t></m:r><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num>"
        "<m:den><m:sSup><m:e><m:r><m:t>c</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup>"
        "</m:sSup></m:den></m:f></m:oMath>"
    )
    assert texts_of(body + paragraph(fraction)) == ["10^-6 H_2O", "x=(a+b)/(c^2)"]


def level(depth: int, text: str, kind: str = "decimal", more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def numbered(number: int, depth: int, text: str) -> str:
    said = f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
    return paragraph(run(text), properties=said)


def test_automatic_numbers_of_headings_and_lists_are_shown() -> None:
    levels = level(0, "%1.", more='<w:pStyle w:val="One"/>') + level(1, "%1.%2", "lowerLetter")
    numbering = (
        f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        f'<w:abstractNum w:abstractNumId="8">{level(0, "-", "bullet")}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
        '<w:num w:numId="3"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0">'
        '<w:startOverride w:val="5"/></w:lvlOverride></w:num>'
    )
    styles = (
        '<w:style w:styleId="One"><w:name w:val="\u00dcberschrift 1"/>'
        '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    )
    heading = paragraph(run("Sea"), properties='<w:pStyle w:val="One"/>')
    body = (
        heading
        + numbered(1, 1, "salt")
        + numbered(2, 0, "dot")
        + numbered(1, 1, "foam")
        + heading
        + numbered(1, 1, "kelp")
        + numbered(3, 0, "five")
    )
    blocks = blocks_of(body, numbering=numbering, styles=styles)
    assert [(block.level, block.text) for block in blocks] == [
        (1, "1. Sea"),
        (0, "1.a salt"),
        (0, "dot"),
        (0, "1.b foam"),
        (1, "2. Sea"),
        (0, "2.a kelp"),
        (0, "5. five"),
    ]


def test_items_repeat_the_item_they_are_nested_in() -> None:
    levels = level(0, "%1.") + level(1, "%2)")
    numbering = (
        f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    )
    body = paragraph(run("Before sailing:")) + numbered(1, 0, "Oil.") + numbered(1, 1, "Level.")
    assert blocks_of(body, numbering=numbering)[2].leads == ("Before sailing:", "1. Oil.")


def test_charts_and_diagrams_are_read_once() -> None:
    chart = (
        "<c:title><a:t>Catch</a:t></c:title><c:lineChart><c:ser><c:tx><c:v>Cod</c:v></c:tx>"
        '<c:cat><c:pt idx="0"><c:v>May</c:v></c:pt></c:cat>'
        '<c:val><c:pt idx="0"><c:v>4.4000000000000004</c:v></c:pt></c:val></c:ser>'
        "</c:lineChart>"
    )
    diagram = "<dgm:pt><dgm:t><a:p><a:r><a:t>Sort</a:t></a:r></a:p></dgm:t></dgm:pt>"
    shown = '<w:drawing><c:chart r:id="rchart"/></w:drawing><dgm:relIds r:dm="rdiagramData"/>'
    body = paragraph(run("See"), f"<w:r>{shown}</w:r>", f"<w:r>{shown}</w:r>")
    assert texts_of(body, chart=chart, diagramData=diagram) == [
        "See",
        "Line chart: Catch",
        "May | Cod: 4.4",
        "Diagram:",
        "Sort",
    ]


def test_fields_show_their_results_and_forms_their_values() -> None:
    def field(kind: str, more: str = "") -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}">{more}</w:fldChar></w:r>'

    box = '<w:ffData><w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox></w:ffData>'
    choice = (
        '<w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="Oslo"/>'
        '<w:listEntry w:val="Bergen"/></w:ddList></w:ffData>'
    )
    body = paragraph(
        field("begin", box) + field("end") + run(" Paid in "),
        field("begin", choice) + field("end") + run(" on "),
        field("begin") + "<w:r><w:instrText>DATE</w:instrText></w:r>" + run("hidden"),
        field("separate") + run("7 May") + field("end") + run("."),
        '<w:r><w:sym w:font="Symbol" w:char="F06D"/></w:r>',
    )
    assert texts_of(body) == ["[x] Paid in Bergen on 7 May.\u03bc"]


def test_page_headers_are_read_once_at_the_end_and_repetitions_counted() -> None:
    document = docx.Document()
    document.core_properties.title = "Harbour dues"
    document.core_properties.author = "Tove Lund"
    document.add_heading("Dues", 1)
    document.add_paragraph("The dues rise.")
    section = document.sections[0]
    section.header.paragraphs[0].text = "Decision 17"
    section.footer.paragraphs[0].text = "Page 1 of 3"
    later = document.add_section()
    later.header.is_linked_to_previous = False
    later.header.paragraphs[0].text = "Decision 17"
    buffer = io.BytesIO()
    document.save(buffer)
    blocks = extract(buffer.getvalue(), DOCX)
    assert [block.text for block in blocks if block.kind == "note"] == ["Decision 17"]
    assert count_skipped(blocks) == {"page headers and footers that repeat": 2}
    assert blocks[0].names == ("Harbour dues",)
    assert ("author", "Tove Lund") in blocks[0].properties


def test_dates_of_the_template_of_python_docx_are_not_dates_of_the_document() -> None:
    document = docx.Document()
    document.add_paragraph("The dues rise.")
    buffer = io.BytesIO()
    document.save(buffer)
    (block,) = extract(buffer.getvalue(), DOCX)
    assert {"created", "modified"}.isdisjoint(dict(block.properties))
    document.core_properties.modified = datetime(2013, 12, 24, tzinfo=UTC)
    document.save(buffer := io.BytesIO())
    (block,) = extract(buffer.getvalue(), DOCX)
    assert ("modified", "2013-12-24T00:00:00Z") in block.properties


def test_links_lead_where_the_document_says() -> None:
    document = docx.Document()
    target = document.part.relate_to("tides.docx", f"{REL}/hyperlink", is_external=True)
    link = f'<w:hyperlink {nsdecls("w", "r")} r:id="{target}">{run("the tides")}</w:hyperlink>'
    paragraph_of_link = document.add_paragraph("See ")
    paragraph_of_link._p.append(parse_xml(link))
    buffer = io.BytesIO()
    document.save(buffer)
    (block,) = extract(buffer.getvalue(), DOCX)
    assert block.text == "See the tides"
    assert [(at, one.target, one.text) for at, one in block.links] == [
        (4, "tides.docx", "the tides")
    ]


def test_many_references_to_a_long_note_cost_no_more_than_one() -> None:
    reference = '<w:r><w:footnoteReference w:id="1"/></w:r>'
    body = paragraph(run("x"), reference * 5000)
    note = f'<w:footnote w:id="1">{paragraph(run("long " * 2000))}</w:footnote>'
    assert len(blocks_of(body, footnotes=note)) == 2


def test_numbers_of_charts_stand_as_the_chart_shows_them() -> None:
    def series(name: str, number_format: str, value: str) -> str:
        return (
            f"<c:ser><c:tx><c:v>{name}</c:v></c:tx>"
            f"<c:cat><c:numRef><c:formatCode>mmm-yy</c:formatCode>"
            '<c:pt idx="0"><c:v>44197</c:v></c:pt></c:numRef></c:cat>'
            f"<c:val><c:numRef><c:formatCode>{number_format}</c:formatCode>"
            f'<c:pt idx="0"><c:v>{value}</c:v></c:pt></c:numRef></c:val></c:ser>'
        )

    chart = series("Share", "0.0%", "0.256") + series("Boats", "General", "33.0")
    shown = '<w:drawing><c:chart r:id="rchart"/></w:drawing>'
    texts = texts_of(paragraph(f"<w:r>{shown}</w:r>"), chart=f"<c:barChart>{chart}</c:barChart>")
    assert texts == ["Bar chart", "Jan-21 | Share: 25.6% | Boats: 33"]


def test_styles_are_found_however_the_part_is_written() -> None:
    heading = '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    based = '<w:style w:type="paragraph" w:styleId="Mine"><w:basedOn w:val="H1"/></w:style>'
    body = '<w:p><w:pPr><w:pStyle w:val="Mine"/></w:pPr><w:r><w:t>Tides</w:t></w:r></w:p>'
    latent = "<w:latentStyles><w:lsdException/></w:latentStyles>"
    commented = "<!-- <w:style w:styleId='Mine'> -->"
    for styles in (
        heading + based,
        latent + based + heading,
        commented + based + heading,
        (based + heading).replace('"', "'"),
        '<w:style w:styleId="Min"/><w:style w:styleId="Other"/>' + heading + based,
    ):
        (block,) = blocks_of(body, styles=styles)
        assert (block.kind, block.level) == ("heading", 1), styles


def test_a_style_that_is_not_defined_says_nothing() -> None:
    body = '<w:p><w:pPr><w:pStyle w:val="Mine"/></w:pPr><w:r><w:t>Tides</w:t></w:r></w:p>'
    for styles in ("", '<w:style w:styleId="Other"/>', '<w:p styleId="Mine"/>'):
        (block,) = blocks_of(body, styles=styles)
        assert block.kind == "paragraph"


def test_how_a_word_is_pronounced_stands_in_a_note() -> None:
    def ruby(base: str, reading: str) -> str:
        return (
            f"<w:r><w:ruby><w:rt><w:r><w:t>{reading}</w:t></w:r></w:rt>"
            f"<w:rubyBase><w:r><w:t>{base}</w:t></w:r></w:rubyBase></w:ruby></w:r>"
        )

    body = paragraph(ruby("東京", "とうきょう"), run("は"), ruby("港", "みなと"))
    assert [(block.kind, block.text) for block in blocks_of(body)] == [
        ("paragraph", "東京は港"),
        ("note", "東京 (とうきょう); 港 (みなと)"),
    ]


def test_many_texts_that_look_like_styles_are_passed_quickly() -> None:
    body = '<w:p><w:pPr><w:pStyle w:val="X"/></w:pPr><w:r><w:t>Tides</w:t></w:r></w:p>'
    begin = process_time()
    (block,) = blocks_of(body, styles='styleId="X" ' * 100_000)
    assert (block.kind, process_time() - begin < 5) == ("paragraph", True)


def test_an_address_names_no_column() -> None:
    body = table(
        row(cell("Chart"), cell("http://schemas.example/chart")),
        row(cell("Drawing"), cell("http://schemas.example/drawing")),
        look='w:firstRow="1"',
    )
    assert texts_of(body)[0] == "Chart | http://schemas.example/chart"
