"""Files with many notes: Evernote, Joplin, outlines, and pages that browsers save."""

import base64
import io
import tarfile

import pytest

from connectors.media_type import guess_media_type, is_document_name
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import ENEX, JEX, MAIL, OPML, find_unit
from hopsyncd.formats.readers import extract


def told(blocks: tuple[Block, ...]) -> list[tuple[int, str]]:
    return [(block.first_line, block.text) for block in blocks if block.text]


ENML = """<![CDATA[<?xml version="1.0" encoding="UTF-8"?><en-note><div>Feed it&nbsp;daily.</div>
<div><en-todo checked="true"/>Flour</div><ul><li style="--en-checked:false;">Water</li></ul>
<en-crypt cipher="AES">RU5DMCR2SQ</en-crypt><en-media type="image/png" hash="0f"/></en-note>]]>"""
ATTACHED = base64.b64encode(b"Rye starter.\n").decode()
EVERNOTE = f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE en-export SYSTEM "http://xml.evernote.com/pub/evernote-export4.dtd">
<en-export application="Evernote"><note><title>Bread &amp; more</title>
<created>20241201T080000Z</created><updated>20250304T192110Z</updated><tag>baking</tag><tag>home</tag>
<note-attributes><author>Elin Berg</author>
<source-url>https://example.org/b</source-url></note-attributes>
<content>{ENML}</content>
<resource><data encoding="base64">{ATTACHED}</data><mime>text/plain</mime>
<resource-attributes><file-name>starter.txt</file-name></resource-attributes></resource>
<resource><data encoding="base64">iVBORw0KGgo=</data><mime>image/png</mime></resource></note>
<note><title>Salt</title><created>20240101T080000Z</created><content></content></note></en-export>"""


def test_each_note_of_evernote_is_a_section() -> None:
    blocks = extract(EVERNOTE.encode(), ENEX)
    assert told(blocks) == [
        (1, "Bread & more"),
        (
            1,
            "Created 2024-12-01; author: Elin Berg; tags: baking, home;"
            " source: https://example.org/b",
        ),
        (1, "Feed it daily."),
        (1, "[x] Flour"),
        (1, "[ ] Water"),
        (1, "starter.txt"),
        (1, "Rye starter."),
        (2, "Salt"),
        (2, "Created 2024-01-01"),
    ]
    assert set(blocks[0].properties) == {
        ("author", "Elin Berg"),
        ("tag", "baking"),
        ("tag", "home"),
        ("created", "2024-01-01T08:00:00+00:00"),
        ("modified", "2025-03-04T19:21:10+00:00"),
    }
    assert count_skipped(blocks) == {"encrypted text": 1, "pictures": 1}
    assert find_unit(ENEX) == "note"


def joplin(kind: int, id_: str, text: str, **fields: str) -> str:
    told_fields = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{text}\n\nid: {id_ * 32}\n{told_fields}type_: {kind}"


ITEMS = {
    "a.md": joplin(
        *(1, "a", "Hydration\n\nUse 72 percent water. See [Bread](:/" + "b" * 32 + ")."),
        parent_id="c" * 32,
        author="Elin Berg",
        created_time="2024-12-01T08:00:00.000Z",
        user_updated_time="2025-03-04T19:21:10.000Z",
        source_url="",
    ),
    "c.md": joplin(2, "c", "Baking"),
    "d.md": joplin(5, "d", "rye"),
    "e.md": f"id: {'e' * 32}\nnote_id: {'a' * 32}\ntag_id: {'d' * 32}\ntype_: 6",
    "resources/f.jpg": "\x00\x01",
}


def test_an_archive_of_joplin_has_notes_with_notebook_and_tags() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in ITEMS.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    blocks = extract(buffer.getvalue(), JEX)
    assert told(blocks) == [
        (1, "Hydration"),
        (1, "Created 2024-12-01; author: Elin Berg; tags: rye"),
        (1, "Notebook: Baking"),
        (1, "Use 72 percent water. See Bread."),
    ]
    assert count_skipped(blocks) == {"attachments": 1}


def test_a_file_of_joplin_has_a_title_and_dates_instead_of_fields() -> None:
    blocks = extract(ITEMS["a.md"].encode(), "text/markdown")
    assert told(blocks) == [(1, "Hydration"), (3, "Use 72 percent water. See Bread.")]
    assert set(blocks[0].properties) == {
        ("author", "Elin Berg"),
        ("created", "2024-12-01T08:00:00.000Z"),
        ("modified", "2025-03-04T19:21:10.000Z"),
    }
    assert [link.target for block in blocks for _, link in block.links] == ["b" * 32]


@pytest.mark.parametrize("name", ["c.md", "d.md", "e.md"])
def test_records_of_joplin_that_are_no_notes_have_no_text(name: str) -> None:
    blocks = extract(ITEMS[name].encode(), "text/markdown")
    assert not told(blocks) and count_skipped(blocks) == {"records of a program": 1}


@pytest.mark.parametrize("end", ["\n\nid: 12\ntype_: 1", "\ntype_: 1", "\n\ntype_: 1 is a note."])
def test_a_note_about_joplin_is_read_as_written(end: str) -> None:
    blocks = extract(f"# Formats{end}".encode(), "text/markdown")
    assert "type_: 1" in told(blocks)[-1][1]


def test_an_outline_has_its_top_items_as_headings() -> None:
    text = (
        '<opml version="2.0"><head><title>Move</title></head><body><outline text="Before">'
        '<outline text="Book the van" _note="Number 55"><outline text="Two days"/></outline>'
        '<outline text="Tern Watch" xmlUrl="https://example.org/t.xml"/></outline></body></opml>'
    )
    blocks = extract(text.encode(), OPML)
    assert told(blocks) == [
        (1, "Move"),
        (1, "Before"),
        (2, "Book the van"),
        (2, "Number 55"),
        (3, "  Two days"),
        (4, "Tern Watch"),
    ]
    assert [link.target for block in blocks for _, link in block.links] == [
        "https://example.org/t.xml"
    ]


def test_a_page_that_a_browser_saved_has_no_author() -> None:
    text = (
        "From: <Saved by Blink>\r\nSnapshot-Content-Location: https://example.org/\r\n"
        "Subject: Knots\r\nDate: Mon, 2 Feb 2026 10:00:00 -0000\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/related; type="text/html"; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
        "<html><body><p>The zeppelin bend joins =\r\ntwo ropes.</p></body></html>\r\n"
        "--b\r\nContent-Type: text/css\r\n\r\np {}\r\n--b--\r\n"
    )
    assert guess_media_type("Knots.mht") == guess_media_type("Knots.mhtml") == MAIL
    blocks = extract(text.encode(), MAIL)
    shown = [text for _, text in told(blocks)]
    assert shown[0] == "Knots" and "The zeppelin bend joins two ropes." in shown
    assert not any("Saved by" in text or "p {}" in text for text in shown)
    assert all(name != "author" for block in blocks for name, _ in block.properties)


def test_exports_of_notes_are_read_by_default() -> None:
    assert all(map(is_document_name, ("a.enex", "a.jex", "a.opml", "a.mht")))
