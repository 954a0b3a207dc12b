"""Books: metadata, damaged chapters, tables of contents."""

import io
import zipfile

import pytest

from connectors.media_type import guess_media_type
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.media_types import EPUB
from hopsyncd.formats.readers import extract

MARK = b"This text gets damaged"
METADATA = (
    "<dc:title>Tides</dc:title><dc:creator>Ada Lund</dc:creator><dc:creator>Bo Ek</dc:creator>"
    "<dc:date>2019-06-22</dc:date><dc:language>en</dc:language>"
)


def book(*chapters: str, metadata: str = METADATA, contents: str = "") -> bytes:
    """A book whose chapters are stored without compression; `contents` is its `nav`."""
    items = (
        "".join(f'<item id="c{index}" href="c{index}.xhtml"/>' for index in range(len(chapters)))
        + '<item id="nav" href="nav.xhtml" properties="nav"/>'
    )
    spine = '<itemref idref="nav"/>' + "".join(
        f'<itemref idref="c{index}"/>' for index in range(len(chapters))
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("META-INF/container.xml", '<c><rootfile full-path="b/p.opf"/></c>')
        archive.writestr(
            "b/p.opf",
            f'<package xmlns:dc="dc"><metadata>{metadata}</metadata>'
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
        )
        archive.writestr("b/nav.xhtml", f"<html><body><nav>{contents}</nav></body></html>")
        for index, chapter in enumerate(chapters):
            archive.writestr(f"b/c{index}.xhtml", f"<html><body>{chapter}</body></html>")
    return buffer.getvalue()


def told(blocks: tuple[Block, ...]) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in blocks if block.text]


def test_a_book_has_its_title_and_authors_and_tells_its_date() -> None:
    blocks = extract(book("<h1>Ebb</h1><p>Low.</p>", "<h1>Flow</h1><p>High.</p>"), EPUB)
    assert told(blocks) == [
        (1, "Tides"),
        (0, "Author: Ada Lund, Bo Ek"),
        (2, "Ebb"),
        (0, "Low."),
        (2, "Flow"),
        (0, "High."),
    ]
    assert blocks[0].properties == (
        ("author", "Ada Lund"),
        ("author", "Bo Ek"),
        ("created", "2019-06-22"),
        ("language", "en"),
    )


def test_a_damaged_chapter_is_counted_and_the_others_are_read() -> None:
    data = book("<p>Low.</p>", f"<p>{MARK.decode()}</p>", "<p>High.</p>")
    blocks = extract(data.replace(MARK, MARK.swapcase()), EPUB)
    assert [text for level, text in told(blocks) if not level][1:] == ["Low.", "High."]
    assert count_skipped(blocks)["damaged chapters"] == 1


def test_a_book_of_which_all_chapters_are_damaged_is_refused() -> None:
    data = book(f"<p>{MARK.decode()}</p>")
    with pytest.raises(DocumentUnreadable, match="all chapters of the book are damaged"):
        extract(data.replace(MARK, MARK.swapcase()), EPUB)


def test_a_chapter_without_heading_has_its_title_from_the_table_of_contents() -> None:
    contents = '<a href="c0.xhtml">Low water</a><a href="c1.xhtml#x">High water</a>'
    data = book("<p>Low.</p>", "<h1>Flow</h1><p>High.</p>", contents=contents)
    blocks = extract(data, EPUB)
    assert [text for level, text in told(blocks) if level] == ["Tides", "Low water", "Flow"]
    assert count_skipped(blocks) == {"tables of contents": 1}


def test_the_title_of_a_book_stands_above_its_only_chapter_and_no_file_title_does() -> None:
    head = "<head><title>Unknown</title></head>"
    blocks = extract(book(f"{head}<h1>Images</h1><p>One.</p>", f"{head}<p>Two.</p>"), EPUB)
    assert told(blocks) == [
        (1, "Tides"), (0, "Author: Ada Lund, Bo Ek"), (2, "Images"), (0, "One."), (0, "Two."),
    ]  # fmt: skip


def test_a_fiction_book_has_chapters_notes_tables_and_verses() -> None:
    book = """<?xml version="1.0" encoding="windows-1251"?>
<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" xmlns:l="http://www.w3.org/1999/xlink">
<description><title-info><genre>sea</genre><author><first-name>Анна</first-name>
<last-name>Ли</last-name></author><book-title>Лодки</book-title>
<annotation><p>About boats.</p></annotation><lang>ru</lang></title-info></description>
<body><title><p>Лодки</p></title>
<section><title><p>Chapter</p><p>One</p></title><p>She <emphasis>sailed</emphasis> 10<sup>3</sup>
miles.<a l:href="#n1" type="note">[1]</a></p><empty-line/>
<poem><stanza><v>A wave,</v><v>a gull.</v></stanza></poem></section>
<section><title><p>Two</p></title><subtitle>Later</subtitle>
<table><tr><th>Boat</th><th>Year</th></tr><tr><td>Alva</td><td>1902</td></tr></table>
<cite><p>Said once.</p><text-author>Ann</text-author></cite></section></body>
<body name="notes"><section id="n1"><title><p>1</p></title><p>Sea miles.</p></section></body>
</FictionBook>""".encode("windows-1251")
    read = extract(book, guess_media_type("boats.fb2"))
    assert [(block.kind, block.text, block.first_line) for block in read if block.text] == [
        ("heading", "Лодки", 2),
        ("paragraph", "Author: Анна Ли", 1),
        ("paragraph", "About boats.", 1),
        ("heading", "Chapter One", 3),
        ("paragraph", "She sailed 10^3\nmiles.[1]", 3),
        ("paragraph", "A wave,", 3),
        ("paragraph", "a gull.", 3),
        ("note", "1 Sea miles.", 3),
        ("heading", "Two", 4),
        ("heading", "Later", 4),
        ("table", "Boat: Alva | Year: 1902", 4),
        ("paragraph", "Said once.", 4),
        ("paragraph", "Ann", 4),
    ]
    assert dict(read[0].properties)["author"] == "Анна Ли"


def test_the_title_stands_above_chapters_without_headings() -> None:
    title = "<description><title-info><book-title>Harbour</book-title></title-info></description>"
    parts = "<section><p>First.</p></section><section><p>Second.</p></section>"
    book = f'<FictionBook xmlns="x">{title}<body>{parts}</body></FictionBook>'.encode()
    passages = split_into_passages(extract(book, guess_media_type("a.fb2")))
    assert {passage.heading for passage in passages} == {("Harbour",)}
    assert "\n\n".join(passage.text for passage in passages) == "First.\n\nSecond."
