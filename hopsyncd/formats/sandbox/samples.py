"""Builds a small document of each type. A reader that cannot read its sample is broken."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from types import MappingProxyType

from hopsyncd.formats.media_types import (
    CANVAS,
    DOCX,
    ENEX,
    EPUB,
    FICTION_BOOK,
    IPYNB,
    JEX,
    MAIL,
    MBOX,
    ODP,
    ODS,
    ODT,
    OPML,
    PDF,
    PPTX,
    RTF,
    XLSX,
)

_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_SHEET_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def _make_relation(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_RELATIONS}">'
        f'<Relationship Id="r1" Type="{_OFFICE}/{kind}" Target="{target}"/></Relationships>'
    )


def _make_zip(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def _make_pdf() -> bytes:
    page = b"BT /F 12 Tf 20 20 Td (Sample) Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(page), page),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    data, places = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, content in enumerate(objects, 1):
        places += b"%010d 00000 n \n" % len(data)
        data += b"%d 0 obj%s\nendobj\n" % (number, content)
    end = b"xref\n0 %d\n%strailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return data + end % (len(objects) + 1, places, len(objects) + 1, len(data))


def _make_docx() -> bytes:
    text = "<w:p><w:r><w:t>Sample</w:t></w:r></w:p>"
    return _make_zip(
        {
            "_rels/.rels": _make_relation("officeDocument", "word/document.xml"),
            "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{text}</w:body>'
            "</w:document>",
        }
    )


def _make_opendocument(kind: str, content: str, *namespaces: str) -> bytes:
    names = (
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", *namespaces)
    )
    body = f"<office:body><office:{kind}>{content}</office:{kind}></office:body>"
    document = f"<office:document-content {' '.join(names)}>{body}</office:document-content>"
    return _make_zip({"content.xml": document})


def _make_odt() -> bytes:
    return _make_opendocument("text", "<text:p>Sample</text:p>")


def _make_ods() -> bytes:
    row = "<table:table-cell><text:p>Sample</text:p></table:table-cell>"
    table = f"<table:table><table:table-row>{row}</table:table-row></table:table>"
    return _make_opendocument("spreadsheet", table, "table")


def _make_odp() -> bytes:
    page = "<draw:page><draw:text-box><text:p>Sample</text:p></draw:text-box></draw:page>"
    return _make_opendocument("presentation", page, "draw")


def _make_pptx() -> bytes:
    names = f'xmlns:p="{_SLIDES}" xmlns:a="{_DRAWING}" xmlns:r="{_OFFICE}"'
    text = "<p:txBody><a:p><a:r><a:t>Sample</a:t></a:r></a:p></p:txBody>"
    return _make_zip(
        {
            "ppt/presentation.xml": f"<p:presentation {names}><p:sldIdLst>"
            '<p:sldId id="256" r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": _make_relation("slide", "slides/slide1.xml"),
            "ppt/slides/slide1.xml": f"<p:sld {names}><p:cSld><p:spTree><p:sp>{text}</p:sp>"
            "</p:spTree></p:cSld></p:sld>",
        }
    )


def _make_xlsx() -> bytes:
    cell = '<c r="A1" t="inlineStr"><is><t>Sample</t></is></c>'
    types = (
        f'<Override PartName="/xl/{name}.xml" ContentType="{_SHEET_TYPES}.{kind}+xml"/>'
        for name, kind in (("workbook", "sheet.main"), ("sheet", "worksheet"))
    )
    return _make_zip(
        {
            "[Content_Types].xml": "<Types xmlns="
            '"http://schemas.openxmlformats.org/package/2006/content-types">'
            f"{''.join(types)}</Types>",
            "_rels/.rels": _make_relation("officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>'
            '<sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": _make_relation("worksheet", "sheet.xml"),
            "xl/sheet.xml": f'<worksheet xmlns="{_SHEET}"><sheetData><row r="1">{cell}</row>'
            "</sheetData></worksheet>",
        }
    )


def _make_epub() -> bytes:
    return _make_zip(
        {
            "META-INF/container.xml": '<container><rootfile full-path="a.opf"/></container>',
            "a.opf": '<package><manifest><item id="c" href="c.html"/></manifest>'
            '<spine><itemref idref="c"/></spine></package>',
            "c.html": "<p>Sample</p>",
        }
    )


def _make_jex() -> bytes:
    text = f"Sample\n\nid: {'0' * 32}\ntype_: 1".encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("note.md")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return buffer.getvalue()


SAMPLES: MappingProxyType[str, Callable[[], bytes]] = MappingProxyType(
    {
        PDF: _make_pdf,
        DOCX: _make_docx,
        ODS: _make_ods,
        ODP: _make_odp,
        ODT: _make_odt,
        RTF: lambda: rb"{\rtf1\ansi Sample\par}",
        PPTX: _make_pptx,
        XLSX: _make_xlsx,
        EPUB: _make_epub,
        FICTION_BOOK: lambda: b"<FictionBook><body><p>Sample</p></body></FictionBook>",
        MAIL: lambda: b"Subject: Sample\n\nSample\n",
        MBOX: lambda: b"From ann\nSubject: Sample\n\nSample\n",
        ENEX: lambda: b"<en-export><note><title>Sample</title></note></en-export>",
        JEX: _make_jex,
        OPML: lambda: b'<opml><body><outline text="Sample"/></body></opml>',
        CANVAS: lambda: b'{"nodes": [{"id": "1", "type": "text", "text": "Sample"}]}',
        IPYNB: lambda: b'{"cells": [{"cell_type": "markdown", "source": "Sample"}]}',
        "text/csv": lambda: b"Word\nSample\n",
        "application/json": lambda: b'{"word": "Sample"}',
        "text/html": lambda: b"<p>Sample</p>",
        "text/x-rst": lambda: b"Sample\n",
        "text/asciidoc": lambda: b"Sample\n",
        "text/x-tex": lambda: b"Sample\n",
        "text/x-bibtex": lambda: b"@book{a,\ntitle = {Sample}}\n",
        "text/org": lambda: b"Sample\n",
        "text/vtt": lambda: b"00:01.000 --> 00:02.000\nSample\n",
        "text/vcard": lambda: b"BEGIN:VCARD\nFN:Sample\nEND:VCARD\n",
        "text/x-python": lambda: b'"""Sample."""\n',
        "text/x-source": lambda: b"Sample\n",
        "text/markdown": lambda: b"Sample\n",
        "text/plain": lambda: b"Sample\n",
    }
)
"""Functions that build the sample of each media type. Every sample contains the word "Sample"."""
