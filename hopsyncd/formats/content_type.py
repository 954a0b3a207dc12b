"""Detects the type of an office document from its content, because file names can be wrong.

A `.doc` file may be RTF, and an `.xls` file that a website exports is often an HTML page.
"""

import re

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.media_types import (
    DOCX,
    EPUB,
    MAIL,
    MBOX,
    ODP,
    ODS,
    ODT,
    OUTLOOK,
    PDF,
    PPTX,
    RTF,
    XLS,
    XLSX,
)

DOC, PPT = "application/msword", "application/vnd.ms-powerpoint"
OFFICE_TYPES = frozenset((DOC, PPT, DOCX, PPTX, XLSX, XLS, ODT, ODS, ODP, RTF, EPUB, PDF, OUTLOOK))
_ZIP, _COMPOUND_FILE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_PAGE = re.compile(rb"(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html|head|meta|body|table)\b", re.I)
_FOLDERS = {b"word/": DOCX, b"ppt/": PPTX, b"xl/": XLSX}
_PACKAGES = (ODT, ODS, ODP, EPUB)
_BEGIN_BYTES = 1024
_MAIL_HEADER = re.compile(
    rb"(?:From|To|Cc|Subject|Date|Message-ID|MIME-Version|Return-Path|Received|Delivered-To"
    rb"|Reply-To|Sender|(?:Content|X|List)-[\w-]+):",
    re.IGNORECASE,
)


def detect_content_type(data: bytes, media_type: str) -> str:
    """Return the media type that the content of an office document shows, or `media_type`.

    Documents other than office documents keep `media_type`. Text in a `.doc` counts as plain text,
    text in a `.xls` as a table, and text in a `.msg` as mail if it begins with a header.

    >>> detect_content_type(b"{\\\\rtf1 Tides}", DOC), detect_content_type(b"{}", "text/plain")
    ('application/rtf', 'text/plain')
    """
    if media_type not in OFFICE_TYPES or not data:
        return media_type
    begin = data[:_BEGIN_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"{\\rtf"):
        return RTF
    if begin.startswith(b"%PDF-"):
        return PDF
    if begin.startswith(_ZIP):
        return _detect_package_type(data, media_type)
    if _PAGE.match(begin):
        return "text/html"
    if begin.startswith(_COMPOUND_FILE):
        return XLS if media_type == XLSX and _ENCRYPTED not in data else media_type
    if media_type == OUTLOOK:
        return MAIL if is_mail(data) else MBOX if data.startswith(b"From ") else OUTLOOK
    if media_type in (DOC, XLS) and b"\0" not in data:
        return "text/plain" if media_type == DOC else "text/csv"
    return media_type


def is_mail(data: bytes) -> bool:
    """Whether data begins with the header of a message."""
    return _MAIL_HEADER.match(data) is not None


def _detect_package_type(data: bytes, media_type: str) -> str:
    """Return the type of the office document or book in a ZIP archive, or `media_type` if the
    archive does not show another type.

    The archive is not unpacked, because this function also runs in the daemon process.
    """
    if data[30:38] == b"mimetype":  # OpenDocument and EPUB begin with this uncompressed file
        declared = data[38:_BEGIN_BYTES].partition(b"PK")[0].decode("ascii", "replace").strip()
        return declared if declared in _PACKAGES else media_type
    names = _find_directory(data)
    kinds = [kind for folder, kind in _FOLDERS.items() if folder in names]
    return kinds[0] if kinds and media_type not in kinds else media_type


def _find_directory(data: bytes) -> bytes:
    """Return the central directory of a ZIP archive, which lists its files, or b"" if the archive
    is damaged."""
    end = data.rfind(b"PK\x05\x06")
    if end < 0 or end + 20 > len(data):
        return b""
    size = int.from_bytes(data[end + 12 : end + 16], "little")
    return data[max(end - size, 0) : end]


def refuse_old_office(data: bytes, media_type: str) -> None:
    """Raise DocumentUnreadable for a Word or PowerPoint file in a format from before 2007, and for
    an encrypted Office file.

    Both are compound files.
    """
    is_in_container = media_type in (DOCX, PPTX, XLSX) and data.startswith(_COMPOUND_FILE)
    if media_type not in (DOC, PPT) and not is_in_container:
        return
    if _ENCRYPTED in data:
        raise DocumentUnreadable(
            "the document",
            "the file is protected by a password",
            "Save a copy without the password.",
        )
    raise DocumentUnreadable(
        "the document",
        "Word and PowerPoint files in a format from before 2007 cannot be read",
        "Save the file as .docx or .pptx.",
    )
