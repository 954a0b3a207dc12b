"""Documents of every format that is read, made by the libraries that people's programs stand on.

Each mentions a word of its own, at a place that is known: `SAMPLES` says which and where.
"""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage

import docx
import openpyxl
import pptx
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate

FILLER = "The harbour was calm that morning, and nobody had seen the boats come in. " * 4


@dataclass(frozen=True, slots=True)
class Sample:
    """A file, the word that it alone has, where that stands, and the headings above it."""

    name: str
    data: bytes
    word: str
    location: str
    heading: tuple[str, ...]


def pdf() -> bytes:
    styles = getSampleStyleSheet()
    story: list[object] = []
    for number in range(1, 5):
        story += [Paragraph(f"Journey part {number}", styles["Heading1"])]
        story += [Paragraph(FILLER, styles["BodyText"])] * 2
        if number == 3:
            story += [Paragraph("There the quizzlefish was caught.", styles["BodyText"])]
        story += [PageBreak()]
    buffer = io.BytesIO()
    SimpleDocTemplate(buffer).build(story)
    return buffer.getvalue()


def word_file() -> bytes:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Strictly a running head"
    document.add_heading("Journal", 1)
    document.add_paragraph(FILLER)
    document.add_heading("Spring", 2)
    document.add_paragraph("The wobblestone was found in the garden.")
    table = document.add_table(2, 2)
    for row, cells in enumerate((("Name", "Age"), ("Tove", "44"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    return _saved(document.save)


def slides() -> bytes:
    deck = pptx.Presentation()
    for number in range(1, 4):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Plan {number}"
        slide.placeholders[1].text = f"Goal {number}\nMore"
    bare = deck.slides.add_slide(deck.slide_layouts[6])
    box = bare.shapes.add_textbox(0, 0, 100, 100)
    box.text_frame.text = "The marzipanther sleeps."
    bare.notes_slide.notes_text_frame.text = "Say that the gloomwhistle is only a rumour."
    return _saved(deck.save)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Costs"
    book.active.append(["Thing", "Price"])
    book.active.append(["Rope", 12.5])
    staff = book.create_sheet("Staff")
    for row, cells in enumerate((("Name", "Age", "City"), ("Tove", 44, "Snorkelby")), 3):
        for column, value in enumerate(cells, 2):
            staff.cell(row, column, value)
    return _saved(book.save)


def book() -> bytes:
    chapters = ("calm.xhtml", "storm%20two.xhtml")
    items = "".join(f'<item id="c{n}" href="{name}"/>' for n, name in enumerate(chapters))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(2))
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>{}</h1><p>{}</p></body></html>"
    return _zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": "<container xmlns='urn:oasis:names:tc:opendocument:xmlns:"
            "container'><rootfiles><rootfile full-path='OPS/book.opf'/></rootfiles></container>",
            "OPS/book.opf": "<package xmlns='http://www.idpf.org/2007/opf'><manifest>"
            f"{items}</manifest><spine>{spine}</spine></package>",
            "OPS/calm.xhtml": page.format("Calm", FILLER),
            "OPS/storm two.xhtml": page.format("Storm", "The thunderplum fell."),
        }
    )


def odt() -> bytes:
    names = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    names += ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    return _zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:document-content {names}><office:body><office:text>"
            '<text:h text:outline-level="1">Letter</text:h><text:p>Dear all,</text:p>'
            "<text:p>the fribblewood burned.</text:p>"
            "</office:text></office:body></office:document-content>",
        }
    )


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Tides", "tove@example.org"
    message.set_content("Hello,\n\nthe zephyrmole is back.\n")
    return message.as_bytes()


def mailbox() -> bytes:
    second = EmailMessage()
    second["Subject"], second["From"] = "Ropes", "ada@example.org"
    second.set_content("The quaywhistle broke.\n")
    start = b"From tove@example.org Mon Nov  2 10:00:00 2026\n"
    return b"".join(start + one + b"\n" for one in (mail(), second.as_bytes()))


def notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "All about tides."]},
        {"cell_type": "code", "source": "height = 3", "outputs": []},
        {"cell_type": "markdown", "source": "The plonkometer was read twice."},
    ]
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def _saved(save: Callable[[io.BytesIO], None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


_JSON = b'{\n "boats": [{"name": "Flimflam", "length": 7}],\n "crew": ["Bluntwick"]\n}\n'
_HTML = b"<h1>Birds</h1>\n<p>Calm.</p>\n<p>The skirlhawk nests.</p>\n"
_PYTHON = b'import os\n\n\ndef tide():\n    """The dribblecode."""\n    return os\n'

SAMPLES = (
    Sample("a.pdf", pdf(), "quizzlefish", "page 3", ("Journey part 3",)),
    Sample("b.docx", word_file(), "wobblestone", "paragraphs 4-6", ("Journal", "Spring")),
    Sample("c.pptx", slides(), "marzipanther", "slide 4", ()),
    Sample("c.pptx", slides(), "gloomwhistle", "slide 4", ("Notes",)),
    Sample("d.xlsx", workbook(), "Snorkelby", "Staff!B4:D4", ("Staff",)),
    Sample("e.epub", book(), "thunderplum", "chapter 2", ("Storm",)),
    Sample("f.odt", odt(), "fribblewood", "paragraphs 2-3", ("Letter",)),
    Sample(
        "g.rtf", rb"{\rtf1\ansi Calm.\par The grumblevane turned.\par}", "grumblevane",
        "paragraphs 1-2", (),
    ),
    Sample("h.eml", mail(), "zephyrmole", "lines 3-7", ("Tides",)),
    Sample("i.ipynb", notebook(), "plonkometer", "cells 1-3", ("Tides",)),
    Sample("j.csv", b"Ship,Port\nAda,Oslo\nEos,Quarrelton\n", "Quarrelton", "lines 2-3", ()),
    Sample("k.json", _JSON, "Bluntwick", "lines 2-3", ()),
    Sample("l.html", _HTML, "skirlhawk", "lines 2-3", ("Birds",)),
    Sample("m.md", b"# Rocks\n\nThe mudgecliff is steep.\n", "mudgecliff", "line 3", ("Rocks",)),
    Sample("n.py", _PYTHON, "dribblecode", "lines 4-6", ("def tide",)),
    Sample("o.rst", b"Fogs\n====\n\nThe haarling is cold.\n", "haarling", "line 4", ("Fogs",)),
    Sample("p.txt", b"Calm.\n\nThe wharfling sings.\n", "wharfling", "lines 1-3", ()),
    Sample("q.mbox", mailbox(), "quaywhistle", "message 2", ("Ropes",)),
)  # fmt: skip
