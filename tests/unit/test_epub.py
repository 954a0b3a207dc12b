"""Books: metadata, damaged chapters, tables of contents."""

import io
import zipfile

import pytest

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, skipped_of
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
        "".join(f'<item id="c{at}" href="c{at}.xhtml"/>' for at in range(len(chapters)))
        + '<item id="nav" href="nav.xhtml" properties="nav"/>'
    )
    spine = '<itemref idref="nav"/>' + "".join(
        f'<itemref idref="c{at}"/>' for at in range(len(chapters))
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
        for at, chapter in enumerate(chapters):
            archive.writestr(f"b/c{at}.xhtml", f"<html><body>{chapter}</body></html>")
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
    assert skipped_of(blocks)["damaged chapters"] == 1


def test_a_book_of_which_all_chapters_are_damaged_is_refused() -> None:
    data = book(f"<p>{MARK.decode()}</p>")
    with pytest.raises(DocumentUnreadable, match="all of its chapters are damaged"):
        extract(data.replace(MARK, MARK.swapcase()), EPUB)


def test_a_chapter_without_heading_has_its_title_from_the_table_of_contents() -> None:
    contents = '<a href="c0.xhtml">Low water</a><a href="c1.xhtml#x">High water</a>'
    data = book("<p>Low.</p>", "<h1>Flow</h1><p>High.</p>", contents=contents)
    blocks = extract(data, EPUB)
    assert [text for level, text in told(blocks) if level] == ["Tides", "Low water", "Flow"]
    assert skipped_of(blocks) == {"tables of contents": 1}


def test_the_title_of_a_book_stands_above_its_only_chapter_and_no_file_title_does() -> None:
    head = "<head><title>Unknown</title></head>"
    blocks = extract(book(f"{head}<h1>Images</h1><p>One.</p>", f"{head}<p>Two.</p>"), EPUB)
    assert told(blocks) == [
        (1, "Tides"), (0, "Author: Ada Lund, Bo Ek"), (2, "Images"), (0, "One."), (0, "Two."),
    ]  # fmt: skip
