"""Office documents are read by their content where it is of another format than the name says."""

import io

import docx
import openpyxl
import pytest

from connectors.media_type import guess_media_type, is_document_name
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.content_type import DOC, PPT, detect_content_type
from hopsyncd.formats.media_types import DOCX, OUTLOOK, PDF, PPTX, RTF, XLS, XLSX
from hopsyncd.formats.readers import extract, is_light

OLD = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(4000)


def word_document() -> bytes:
    buffer = io.BytesIO()
    document = docx.Document()
    document.add_paragraph("Tides")
    document.save(buffer)
    return buffer.getvalue()


def workbook() -> bytes:
    buffer = io.BytesIO()
    book = openpyxl.Workbook()
    book.active.append(["Hut", "Beds"])
    book.active.append(["Skarvbu", 12])
    book.save(buffer)
    return buffer.getvalue()


def texts(data: bytes, name: str) -> list[str]:
    return [block.text for block in extract(data, guess_media_type(name)) if block.text]


def test_a_doc_is_read_by_its_content() -> None:
    page = b"<!DOCTYPE html><html><body><p>Tides</p></body></html>"
    for data in (rb"{\rtf1 Tides}", page, b"\xef\xbb\xbf" + page, word_document(), b"Tides\n"):
        assert texts(data, "a.doc") == ["Tides"]


def test_a_sheet_is_read_by_its_content() -> None:
    page = b"<table><tr><th>Hut</th><th>Beds</th></tr><tr><td>Skarvbu</td><td>12</td></tr></table>"
    text = b"Hut\tBeds\nSkarvbu\t12\n"
    for data in (page, text, workbook()):
        assert texts(data, "a.xls")[-1] == "Hut: Skarvbu | Beds: 12"
    assert texts(workbook(), "a.docx")[-1] == "Hut: Skarvbu | Beds: 12"


def test_the_type_of_other_content_is_unchanged() -> None:
    assert detect_content_type(word_document(), DOCX) == DOCX
    assert detect_content_type(workbook(), XLSX) == XLSX
    assert detect_content_type(OLD, OUTLOOK) == OUTLOOK
    assert detect_content_type(OLD, XLS) == XLS
    assert detect_content_type(b"PK\x03\x04 broken", PPTX) == PPTX
    assert detect_content_type(b"<html>", "text/markdown") == "text/markdown"
    assert detect_content_type(b"", DOC) == DOC
    assert (detect_content_type(rb"{\rtf1}", PDF), detect_content_type(b"%PDF-1.4", RTF)) == (
        RTF,
        PDF,
    )


@pytest.mark.parametrize("kind", [DOC, PPT])
def test_old_formats_are_refused_with_what_to_do(kind: str) -> None:
    with pytest.raises(DocumentUnreadable) as refused:
        extract(OLD, kind)
    assert ("before 2007" in refused.value.why, refused.value.hint) == (
        True,
        "Save the file as .docx or .pptx.",
    )
    with pytest.raises(DocumentUnreadable, match="password"):
        extract(OLD + "EncryptedPackage".encode("utf-16-le"), kind)


@pytest.mark.parametrize("kind", [DOCX, PPTX, XLSX])
def test_an_encrypted_office_file_is_not_called_damaged(kind: str) -> None:
    with pytest.raises(DocumentUnreadable, match="protected by a password"):
        extract(OLD + "EncryptedPackage".encode("utf-16-le"), kind)


def test_files_of_old_formats_are_not_documents_and_are_never_read_in_the_daemon() -> None:
    assert not is_document_name("a.doc")
    assert not is_light(DOC, OLD)
    assert not is_light(DOC, rb"{\rtf1}")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.docm", DOCX), ("a.dotx", DOCX), ("a.pptm", PPTX), ("a.ppsx", PPTX), ("a.xltx", XLSX)],
)
def test_files_with_macros_and_templates_are_documents(name: str, kind: str) -> None:
    assert is_document_name(name)
    assert guess_media_type(name) == kind
