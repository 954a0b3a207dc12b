"""Text that is struck through is left out and counted, in every format that has it."""

import io
import zipfile
from collections.abc import Callable

import docx
import pptx
import pytest
from pptx.util import Inches

from hopsyncd.formats.blocks import count_skipped
from hopsyncd.formats.media_types import DOCX, ODT, PPTX, RTF
from hopsyncd.formats.readers import extract

_NS = "urn:oasis:names:tc:opendocument:xmlns"


def word() -> bytes:
    document = docx.Document()
    paragraph = document.add_paragraph("Price: ")
    paragraph.add_run("900").font.strike = True
    paragraph.add_run("800 crowns")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def slides() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(4), Inches(1))
    paragraph = box.text_frame.paragraphs[0]
    for text, strike in (("Price: ", ""), ("900", "sngStrike"), ("800 crowns", "")):
        run = paragraph.add_run()
        run.text = text
        if strike:
            run.font._element.set("strike", strike)
    buffer = io.BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def open_document() -> bytes:
    content = (
        f'<o:document-content xmlns:o="{_NS}:office:1.0" xmlns:s="{_NS}:style:1.0"'
        f' xmlns:t="{_NS}:text:1.0"><o:automatic-styles><s:style s:name="S">'
        '<s:text-properties s:text-line-through-style="solid"/></s:style></o:automatic-styles>'
        '<o:body><o:text><t:p>Price: <t:span t:style-name="S">900</t:span>800 crowns</t:p>'
        "</o:text></o:body></o:document-content>"
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("content.xml", content)
    return buffer.getvalue()


def rich_text() -> bytes:
    return rb"{\rtf1\ansi Price: {\strike 900}800 crowns\par}"


@pytest.mark.parametrize(
    ("make", "media_type"),
    [(word, DOCX), (slides, PPTX), (open_document, ODT), (rich_text, RTF)],
)
def test_struck_text_is_left_out_and_counted(make: Callable[[], bytes], media_type: str) -> None:
    blocks = extract(make(), media_type)
    assert [block.text for block in blocks if block.text] == ["Price: 800 crowns"]
    assert count_skipped(blocks) == {"deletions": 1}


def test_text_after_a_struck_one_is_read() -> None:
    blocks = extract(rb"{\rtf1\ansi Price: \strike 900\strike0 800 crowns\par}", RTF)
    assert [block.text for block in blocks if block.text] == ["Price: 800 crowns"]


def test_marks_that_only_styles_make_are_read_in_html() -> None:
    rules = ".c1{color:red}.c4{vertical-align:super}p .c7,.c5{text-decoration:line-through}"
    page = (
        f"<style>{rules}</style><p>10<span class='c1 c4'>6</span> cells,"
        " H<span style='vertical-align: sub'>2</span>O, <span class='c5'>900</span> 950</p>"
        "<p style='text-decoration-line:line-through'>Gone.</p>"
        "<p style='vertical-align:super'>Kept.</p>"
    )
    blocks = extract(page.encode(), "text/html")
    assert [block.text for block in blocks if block.text] == ["10^6 cells, H_2O, 950", "Kept."]
    assert count_skipped(blocks)["deletions"] == 2


def test_suggested_changes_of_criticmarkup_are_applied() -> None:
    text = "The {--old --}fee is {~~40~>45~~} {++new ++}{==crowns==}{>>Sure?<<}, `{--x--}`."
    blocks = extract(text.encode(), "text/markdown")
    assert blocks[0].text == "The fee is 45 new crowns, {--x--}."
    assert count_skipped(blocks) == {"comments": 1, "deletions": 2}


def test_pronunciations_follow_the_text_in_markdown() -> None:
    text = (
        "<ruby><b>東京</b><rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ、"
        "<ruby>行<rt>い</ruby>く。"
    )
    blocks = extract(text.encode(), "text/markdown")
    assert [(block.kind, block.text) for block in blocks] == [
        ("paragraph", "東京へ、行く。"),
        ("note", "東京 (とうきょう); 行 (い)"),
    ]
