"""Rich text: letters, tables, notes, links, headings, and what is not shown."""

import time

import pytest

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.media_types import RTF
from hopsyncd.formats.readers import extract


def blocks_of(body: bytes, head: bytes = rb"\ansi") -> tuple[Block, ...]:
    return extract(rb"{\rtf1" + head + b" " + body + b"}", RTF)


def texts_of(body: bytes, head: bytes = rb"\ansi") -> list[str]:
    return [block.text for block in blocks_of(body, head) if block.kind != "skipped"]


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (rb"\ansi\ansicpg1250", rb"\'e8esk\'fd", "český"),
        (rb"\mac", rb"caf\'8e", "café"),
        (rb"\pc", rb"caf\'82", "café"),
        (rb"\ansi\ansicpg932", rb"\'93\'fa\'96\'7b", "日本"),
        (rb"\ansi", rb"{\fonttbl{\f0 A;}{\f1\fcharset204 B;}}\f1\'cc\'e8\'f0\f0 \'e9", "Мирé"),
        (rb"\ansi", rb"\u8364?5 \uc2\u8364\'a4\'a46 \uc0\u8364 7", "€5 €6 €7"),
        (rb"\ansi", rb"\u-10179?\u-8704?", "\U0001f600"),
        (rb"\ansi", rb"a\emdash b\lquote c\rquote\~d\_e\-f", "a\u2014b\u2018c\u2019\u00a0d-ef"),
        (rb"\ansi", rb"\u-10179?high, low \u-8704?", "high, low \ufffd"),
        (rb"\ansi", rb"\{a\\b\}", "{a\\b}"),
    ],
)
def test_letters_are_those_of_their_code_page(head: bytes, body: bytes, expected: str) -> None:
    assert texts_of(body, head) == [expected]


def test_deleted_and_hidden_text_and_unknown_destinations_are_left_out() -> None:
    body = (
        rb"Price {\deleted 900}{\revised 950} crowns{\v  secret}{\*\unknown x}"
        rb"{\pict\wmetafile8 0102}{\xe index}\par"
    )
    assert texts_of(body) == ["Price 950 crowns"]


def test_raised_and_lowered_text_keeps_its_meaning() -> None:
    assert texts_of(rb"10{\super 6} H{\sub 2}O m{\up6 3}\super x\nosupersub .") == [
        "10^6 H_2O m^3x."
    ]


def test_cells_span_columns_and_rows_and_marked_rows_name_the_columns() -> None:
    body = (
        rb"\trowd\trhdr\cellx1000\clmgf\cellx2000\clmrg\cellx3000\intbl Season\cell Price\cell\cell"
        rb"\row\trowd\trhdr\cellx1000\cellx2000\cellx3000 \cell Adult\cell Child\cell\row"
        rb"\trowd\clvmgf\cellx1000\cellx2000\cellx3000 High\cell 310\cell 150\cell\row"
        rb"\trowd\clvmrg\cellx1000\cellx2000\cellx3000 \cell 320\cell 160\cell\row\pard end"
    )
    assert texts_of(body) == [
        "Season: High | Price > Adult: 310 | Price > Child: 150",
        "Season: High | Price > Adult: 320 | Price > Child: 160",
        "end",
    ]


def test_rows_that_are_not_marked_are_no_headers_and_edges_tell_spans() -> None:
    body = (
        rb"\trowd\cellx1000\cellx2000\intbl Name\cell Price\cell\row"
        rb"\trowd\cellx1000\cellx2000\intbl Rope\par thick\cell 7\cell\row"
    )
    assert texts_of(body) == ["Name | Price", "Rope thick | 7"]


def test_a_table_in_a_cell_comes_after_its_row() -> None:
    body = (
        rb"\trowd\cellx1\cellx2000\intbl Outer\cell Before \itap2 a\nestcell b\nestcell"
        rb"{\*\nesttableprops\trowd\cellx500\cellx900\nestrow}{\nonesttables\par}"
        rb"\itap1 after\cell\row\pard end"
    )
    assert texts_of(body) == ["Outer | after", "Before a | b", "end"]


def test_notes_and_comments_follow_their_paragraph() -> None:
    body = (
        rb"The bridge{\super\chftn{\footnote\pard\plain{\super\chftn} Built 1901.}} holds."
        rb"{\*\atnauthor Ann}{\*\annotation\pard Really?}\par Next."
    )
    assert [(block.kind, block.text) for block in blocks_of(body)] == [
        ("paragraph", "The bridge holds."),
        ("note", "Built 1901."),
        ("note", "Ann: Really?"),
        ("paragraph", "Next."),
    ]


def test_repeated_page_headers_are_read_once_at_the_end() -> None:
    body = rb"{\header Survey 7\par}Calm.\par{\header Survey 7\par}{\footer Page 1}"
    blocks = blocks_of(body)
    assert [block.text for block in blocks if block.text] == ["Calm.", "Survey 7"]
    assert blocks[-1].properties == (("page headers and footers that repeat", "2"),)


def test_a_field_shows_its_result_and_may_link() -> None:
    body = (
        rb'See {\field{\*\fldinst{HYPERLINK "https://example.org/a"}}{\fldrslt{\ul here}}} or '
        rb"{\field{\*\fldinst PAGE}{\fldrslt 3}}."
    )
    (block,) = blocks_of(body)
    assert block.text == "See here or 3."
    assert [(at, link.target, link.text) for at, link in block.links] == [
        (4, "https://example.org/a", "here")
    ]


def test_headings_lists_and_metadata_are_read() -> None:
    body = (
        rb"{\stylesheet{\s0 Normal;}{\s2 heading 2;}}"
        rb"{\info{\title Rope tests}{\author Ann}}"
        rb"\pard\s2 Method\par\pard\outlinelevel2 Deep\par\pard text:\par"
        rb"{\listtext\'b7\tab}\ls1 bullet\par\pard{\listtext 2.\tab}\ls1\ilvl1 numbered\par"
    )
    blocks = blocks_of(body)
    assert [(block.kind, block.level, block.text) for block in blocks] == [
        ("heading", 1, "Rope tests"),
        ("heading", 2, "Method"),
        ("heading", 3, "Deep"),
        ("paragraph", 0, "text:"),
        ("list_item", 0, "bullet"),
        ("list_item", 0, "2. numbered"),
    ]
    assert blocks[0].names == ("Rope tests",)
    assert blocks[0].properties == (("author", "Ann"),)


@pytest.mark.parametrize(
    "body",
    [
        b"{" * 100_000,
        rb"{\footnote " * 100_000,
        rb"\bin2000000000 x",
        rb"\uc1000000 \u8364 " + b"x" * 1_000_000,
        rb"\super " + b"a{}" * 100_000,
        rb"\trowd" + rb"\clmrg\cellx9" * 20_000 + rb"x\cell" * 20_000 + rb"\row",
        rb"\trowd" + rb"\cellx9" * 10_000 + rb"x\cell\row" * 20_000,
        rb"\itap999999999 x\nestcell\nestrow" * 10_000,
        b"}" * 100_000,
        b"\\a" + b"9" * 100_000,
    ],
)
def test_hostile_documents_take_bounded_time(body: bytes) -> None:
    begin = time.process_time()
    assert texts_of(b"start\\par " + body)[0] == "start"
    assert time.process_time() - begin < 5


def test_a_bold_first_row_names_the_columns() -> None:
    rows = rb"\trowd\cellx2000\cellx4000\intbl %s\cell %s\cell\row"
    data = b"".join(
        (
            rb"{\rtf1\ansi\pard ",
            rows % (rb"\b Season", rb"Price\b0"),
            rows % (b"High", b"310"),
            rows % (b"Low", b"110"),
            rb"\pard End\par}",
        )
    )
    texts = [block.text for block in extract(data, RTF)]
    assert texts == ["Season: High | Price: 310", "Season: Low | Price: 110", "End"]


def test_bold_rows_with_empty_cells_name_the_columns() -> None:
    edges = b"".join(rb"\cellx%d" % (2000 * at) for at in range(1, 6))
    rows = [
        rb"\trowd" + edges + rb"\intbl" + mark + b"".join(rb" %s\cell" % text for text in texts)
        for mark, texts in (
            (rb"\b", (b"", b"In", b"", b"Out", b"")),
            (rb"\b", (b"", b"Plan", b"Real", b"Plan", b"Real")),
            (rb"\b0", (b"North", b"1", b"2", b"3", b"4")),
        )
    ]
    (read,) = extract(rb"{\rtf1\ansi " + rb"\row".join(rows) + rb"\row}", RTF)
    assert read.text == "North | In > Plan: 1 | In > Real: 2 | Out > Plan: 3 | Out > Real: 4"


def test_a_table_all_in_bold_has_no_header() -> None:
    rows = rb"\trowd\cellx2000\cellx4000\intbl\b %s\cell %s\cell\row"
    data = rb"{\rtf1\ansi\pard " + rows % (b"High", b"310") + rows % (b"Low", b"110") + b"}"
    assert [block.text for block in extract(data, RTF)] == ["High | 310", "Low | 110"]


def test_paragraphs_that_begin_with_a_bullet_or_number_and_a_tab_are_items() -> None:
    lines = (
        rb"Do this:", rb"\bullet \tab one", rb"\endash \tab inner", rb"1.\tab first",
        rb"2)\tab second", rb"3. not \tab one", rb"\b End\b0",
    )  # fmt: skip
    blocks = extract(rb"{\rtf1\ansi " + b"".join(line + rb"\par " for line in lines) + b"}", RTF)
    assert [(block.kind, block.text, block.leads) for block in blocks] == [
        ("paragraph", "Do this:", ()),
        ("list_item", "one", ("Do this:",)),
        ("list_item", "inner", ("Do this:", "one")),
        ("list_item", "1. first", ("Do this:",)),
        ("list_item", "2) second", ("Do this:",)),
        ("paragraph", "3. not \tone", ()),
        ("paragraph", "End", ()),
    ]
