"""Slides: tables, charts, diagrams, alternative forms, lists, comments."""

import io
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.oxml import parse_xml
from pptx.util import Inches

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.media_types import PPTX
from hopsyncd.formats.readers import extract

SPACES = 'xmlns:p="p" xmlns:a="a" xmlns:r="r" xmlns:mc="mc" xmlns:dgm="dgm" xmlns:m="m"'
CHART_DATA: Any = CategoryChartData
BOX = (Inches(1), Inches(1), Inches(5), Inches(2))


def saved(fill: Callable[[Any], None], layout: int = 6) -> tuple[Block, ...]:
    deck = pptx.Presentation()
    fill(deck.slides.add_slide(deck.slide_layouts[layout]))
    buffer = io.BytesIO()
    deck.save(buffer)
    return extract(buffer.getvalue(), PPTX)


def test_dates_of_the_template_of_python_pptx_are_not_dates_of_the_document() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "The dues rise."
    buffer = io.BytesIO()
    deck.save(buffer)
    (block, *_) = extract(buffer.getvalue(), PPTX)
    assert {"created", "modified"}.isdisjoint(dict(block.properties))
    deck.core_properties.modified = datetime(2013, 12, 24, tzinfo=UTC)
    deck.save(buffer := io.BytesIO())
    (block, *_) = extract(buffer.getvalue(), PPTX)
    assert ("modified", "2013-12-24T00:00:00Z") in block.properties


def blocks_of(shapes: str, **parts: str) -> list[tuple[str, str]]:
    """Read a slide with these shapes; each part is a file that it refers to, as `kind=xml`."""
    relations = "".join(
        f'<Relationship Id="r{kind}" Type="x/{kind}" Target="{kind}.xml"/>' for kind in parts
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("ppt/presentation.xml", f'<p:d {SPACES}><p:sldId r:id="r1"/></p:d>')
        archive.writestr(
            "ppt/_rels/presentation.xml.rels",
            '<R><Relationship Id="r1" Type="x/slide" Target="s.xml"/>'
            '<Relationship Id="r2" Type="x/commentAuthors" Target="authors.xml"/></R>',
        )
        archive.writestr(
            "ppt/authors.xml", f'<p:l {SPACES}><p:cmAuthor id="4" name="Truls"/></p:l>'
        )
        archive.writestr("ppt/_rels/s.xml.rels", f"<R>{relations}</R>")
        tree = f"<p:sld {SPACES}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        archive.writestr("ppt/s.xml", tree)
        for kind, text in parts.items():
            archive.writestr(f"ppt/{kind}.xml", f"<p:x {SPACES}>{text}</p:x>")
    blocks = extract(buffer.getvalue(), PPTX)
    return [(block.kind, block.text) for block in blocks if block.text]


def shape(*paragraphs: str) -> str:
    return f"<p:sp><p:txBody>{''.join(paragraphs)}</p:txBody></p:sp>"


def said(text: str, properties: str = "", baseline: str = "0") -> str:
    run = f'<a:r><a:rPr baseline="{baseline}"/><a:t>{text}</a:t></a:r>'
    return f"<a:p>{properties}{run}</a:p>"


def test_merged_cells_and_the_first_row_only_where_it_is_marked() -> None:
    def fill(slide: Any, is_headed: bool) -> None:
        table = slide.shapes.add_table(3, 3, *BOX).table
        table.first_row = is_headed
        texts = ("Crew", "Knots", "", "Alpha", "14", "15", "", "16", "17")
        for index, text in enumerate(texts):
            table.cell(index // 3, index % 3).text = text
        table.cell(0, 1).merge(table.cell(0, 2))
        table.cell(1, 0).merge(table.cell(2, 0))

    headed = saved(lambda slide: fill(slide, True))
    assert [block.text for block in headed if block.kind == "table"] == [
        "Crew: Alpha | Knots: 14 | Knots: 15",
        "Crew: Alpha | Knots: 16 | Knots: 17",
    ]
    bare = saved(lambda slide: fill(slide, False))
    assert "Alpha | 14 | 15" in [block.text for block in bare]


def test_charts_and_grouped_shapes_are_read() -> None:
    def fill(slide: Any) -> None:
        data: Any = CHART_DATA()
        data.categories = ["2024", "2025"]
        data.add_series("Cod", (120, 80))
        slide.shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, *BOX, data)
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(*BOX).text_frame.text = "Port is red"

    texts = [block.text for block in saved(fill)]
    assert texts[1:] == ["Bar chart", "2024 | Cod: 120", "2025 | Cod: 80", "Port is red"]


def test_diagrams_and_alternative_forms_are_read_once() -> None:
    diagram = "<dgm:pt><dgm:t><a:p><a:r><a:t>Careen</a:t></a:r></a:p></dgm:t></dgm:pt>"
    frame = '<p:graphicFrame><dgm:relIds r:dm="rdiagramData"/></p:graphicFrame>'
    both = (
        f"<mc:AlternateContent><mc:Choice>{shape(said('New'))}</mc:Choice>"
        f"<mc:Fallback>{shape(said('Old'))}</mc:Fallback></mc:AlternateContent>"
    )
    assert blocks_of(both + frame + frame, diagramData=diagram) == [
        ("paragraph", "New"),
        ("figure", "Diagram:"),
        ("list_item", "Careen"),
    ]


def test_comments_have_their_authors() -> None:
    comment = '<p:cm authorId="4"><p:text>Outdated</p:text></p:cm>'
    assert blocks_of(shape(said("Text")), comments=comment) == [
        ("paragraph", "Text"),
        ("note", "Truls: Outdated"),
    ]


def test_superscripts_and_list_numbers_are_read() -> None:
    number = '<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>'
    nested = '<a:pPr lvl="1"><a:buAutoNum type="arabicPeriod" startAt="5"/></a:pPr>'
    power = '<a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r></a:p>'
    shapes = shape(said("Hull", number), said("Keel", nested), said("Mast", number), power)
    assert blocks_of(shapes) == [
        ("list_item", "1. Hull"),
        ("list_item", "5. Keel"),
        ("list_item", "2. Mast"),
        ("paragraph", "10^6"),
    ]


def test_links_and_what_the_file_says_about_itself() -> None:
    def fill(slide: Any) -> None:
        slide.shapes.title.text = "Rigging"
        run = slide.placeholders[1].text_frame.paragraphs[0].add_run()
        run.text = "the tides"
        run.hyperlink.address = "tides.docx"
        properties = slide.part.package.core_properties
        properties.title, properties.author = "Rigging review", "Tove Lund"

    blocks = saved(fill, layout=1)
    assert [link.target for block in blocks for _, link in block.links] == ["tides.docx"]
    assert blocks[0].names == ("Rigging review",)
    assert ("author", "Tove Lund") in blocks[0].properties


def _table(rows: list[list[str]], merged: int = 0) -> list[str]:
    """The rows that are read of a table; `merged` cells of its first row are one."""

    def fill(slide: Any) -> None:
        inch = Inches(1)
        table = slide.shapes.add_table(len(rows), len(rows[0]), inch, inch, inch, inch).table
        for index, row in enumerate(rows):
            for column, text in enumerate(row):
                table.cell(index, column).text = text
        if merged:
            table.cell(0, 0).merge(table.cell(0, merged - 1))

    return [block.text for block in saved(fill) if block.text]


def test_a_form_and_a_title_across_a_table_name_no_columns() -> None:
    form = [["Name", "Ann"], ["Born", "1990"], ["City", "Oslo"]]
    assert _table(form) == ["Name | Ann", "Born | 1990", "City | Oslo"]
    titled = [["Budget", "", ""], ["Unit", "Plan", "Spent"], ["IT", "10", "12"]]
    assert _table(titled, merged=3) == ["Budget", "Unit: IT | Plan: 10 | Spent: 12"]


def test_categories_of_a_chart_in_groups_have_the_name_of_their_group() -> None:
    def fill(slide: Any) -> None:
        data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
        for year in ("2023", "2024"):
            group = data.add_category(year)
            for quarter in ("Q1", "Q2"):
                group.add_sub_category(quarter)
        data.add_series("Catch", (1, 2, 3, 4))
        inch = Inches(1)
        slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, inch, inch, inch, inch, data)

    assert [block.text for block in saved(fill) if block.kind == "table"] == [
        "2023 > Q1 | Catch: 1",
        "2023 > Q2 | Catch: 2",
        "2024 > Q1 | Catch: 3",
        "2024 > Q2 | Catch: 4",
    ]


def test_a_deck_with_sections_is_read() -> None:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "Herring"
    sections = (
        '<p:ext xmlns:p="p" xmlns:s="s" uri="{52}"><s:sectionLst><s:section name="Fish">'
        '<s:sldIdLst><s:sldId id="256"/></s:sldIdLst></s:section></s:sectionLst></p:ext>'
    )
    deck.part._element.append(parse_xml(sections))
    buffer = io.BytesIO()
    deck.save(buffer)
    assert [block.text for block in extract(buffer.getvalue(), PPTX)] == ["Herring"]
