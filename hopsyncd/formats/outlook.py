"""Reads Outlook messages (`.msg`) as mail.

A `.msg` file is a compound file (MS-CFB) of properties (MS-OXMSG). This module converts it to a
MIME message, which the mail reader reads with all attachments and forwarded messages.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from email.message import Message
from email.parser import BytesParser, HeaderParser
from email.utils import format_datetime
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats import import_library
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.mail import Extract, guess_type, make_depth_error, read_message
from hopsyncd.formats.media_types import CALENDAR, MAIL
from hopsyncd.formats.outlook_events import format_event, read_named_properties
from hopsyncd.formats.rtf import read_rtf

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LAST_SECTOR = 0xFFFFFFFA
_HEADER_BYTES, _EMBEDDED_HEADER_BYTES, _PART_HEADER_BYTES = 32, 24, 8

# Property numbers of MS-OXPROPS.
_SUBJECT, _HEADERS, _BODY, _HTML, _RTF = 0x0037, 0x007D, 0x1000, 0x1013, 0x1009
_MESSAGE_CODEPAGE, _INTERNET_CODEPAGE, _LOCALE = 0x3FFD, 0x3FDE, 0x3FF1
_SENDER_NAME, _SENDER_ADDRESSES = 0x0C1A, (0x5D01, 0x0C1F, 0x5D02, 0x0065)
_SENT_FOR_NAME = 0x0042
_DISPLAY_NAME, _ADDRESSES, _RECIPIENT_TYPE = 0x3001, (0x39FE, 0x3003), 0x0C15
_MESSAGE_CLASS = 0x001A
_SENT, _DELIVERED = 0x0039, 0x0E06
_IDS = {"Message-ID": 0x1035, "In-Reply-To": 0x1042, "References": 0x1039}
_FILE_NAMES, _FILE_TYPE, _FILE_DATA = (0x3707, 0x3704, 0x3001), 0x370E, 0x3701
_EMBEDDED = f"__substg1.0_{_FILE_DATA:04X}000D"
_TEXT_TYPE, _TEXT8_TYPE, _BINARY_TYPE = 0x001F, 0x001E, 0x0102
_TO, _CC = 1, 2

# The code pages of Windows for languages other than the Western European ones. The keys are
# primary language identifiers (MS-LCID), which are the low ten bits of a locale.
_LANGUAGE_BITS = 0x3FF
_TRADITIONAL_CHINESE = frozenset({0x0404, 0x0C04, 0x1404})
_CODECS = {
    **dict.fromkeys((0x01, 0x20, 0x29), "cp1256"),
    **dict.fromkeys((0x02, 0x19, 0x22, 0x23, 0x2F), "cp1251"),
    **dict.fromkeys((0x05, 0x0E, 0x15, 0x18, 0x1A, 0x1B, 0x24), "cp1250"),
    **dict.fromkeys((0x25, 0x26, 0x27), "cp1257"),
    **{0x04: "cp936", 0x08: "cp1253", 0x0D: "cp1255", 0x11: "cp932", 0x12: "cp949"},
    **{0x1E: "cp874", 0x1F: "cp1254", 0x2A: "cp1258"},
}

# The initial dictionary of every compressed text (MS-OXRTFCP, 2.1.3.1.4).
_RTF_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_RTF_HEAD_BYTES = 16
_WINDOW = 4096


def read_outlook(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read an Outlook message; `extract` reads its HTML and its attached documents.

    Raises DocumentUnreadable if the file is not a compound file that contains a message.
    """
    if not data.startswith(_MAGIC):
        raise _make_error("the compound file header is missing")
    try:
        with import_library("olefile").OleFileIO(io.BytesIO(data)) as file:
            if _is_cut_off(file, len(data)):
                raise _make_error("the file is truncated")
            root = import_library("oxmsg.storage").Storage.from_ole(file)
    except RecursionError as error:
        raise make_depth_error() from error
    if not any(stream.name == "__properties_version1.0" for stream in root.streams):
        raise _make_error("the message properties are missing")
    names = read_named_properties(root)
    return read_message(lambda: _build_message(root, _HEADER_BYTES, names), extract)


def _is_cut_off(file: Any, size_bytes: int) -> bool:
    """Whether a stream of a compound file extends beyond the end of the file."""
    sector_bytes, table = file.sector_size, file.fat
    for entry in filter(None, file.direntries):
        if entry.size < file.minisectorcutoff and entry is not file.root:
            continue  # a small stream is inside the root stream
        sector, left = entry.isectStart, entry.size
        for _ in range(len(table)):
            if left <= 0 or sector > _LAST_SECTOR:
                break
            end = (sector + 1) * sector_bytes + min(left, sector_bytes)
            if sector >= len(table) or end > size_bytes:
                return True
            sector, left = table[sector], left - sector_bytes
    return False


def _make_error(why: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        "the document",
        f"not a valid Outlook message: {why}",
        "Save the message again in Outlook, or add the file to `ignore`",
    )


class _Properties:
    """Reads the properties of a message, of a recipient or of an attachment."""

    def __init__(self, storage: Any, header_bytes: int, codec: str = "") -> None:
        self._streams: dict[str, bytes] = {stream.name: stream.bytes_ for stream in storage.streams}
        self._fixed = import_library("oxmsg.properties").Properties(storage, header_bytes)
        self.codec = codec or self.find_codec(_MESSAGE_CODEPAGE) or self._find_language_codec()

    def _find_language_codec(self) -> str:
        """Return the codec that Windows uses for the language of the message, by default
        Windows-1252."""
        locale = self.get_number(_LOCALE) or 0
        if locale in _TRADITIONAL_CHINESE:
            return "cp950"
        return _CODECS.get(locale & _LANGUAGE_BITS, "cp1252")

    def find_codec(self, number: int) -> str:
        """Return the codec for a property that contains a code page, or "" if the code page is
        missing or unknown."""
        page = self.get_number(number)
        with suppress(Exception):  # unknown code pages raise errors of the library
            return str(import_library("oxmsg.domain.encodings").encoding_from_codepage(page))
        return ""

    def get_text(self, *numbers: int) -> str:
        """Return the first non-empty text among the properties with these numbers."""
        for number in numbers:
            wide = self._streams.get(f"__substg1.0_{number:04X}{_TEXT_TYPE:04X}", b"")
            text = wide.decode("utf-16-le", "replace") or _decode(
                self.read_narrow(number), self.codec
            )
            if text.strip("\0 \r\n"):
                return text.replace("\0", "").replace("\r\n", "\n")
        return ""

    def get_line(self, *numbers: int) -> str:
        """Return the first non-empty text among these properties in one line, without the
        two-character marker before a subject."""
        text = self.get_text(*numbers)
        return " ".join((text[2:] if text.startswith("\x01") else text).split())

    def read_narrow(self, number: int) -> bytes:
        """Return the bytes of a text property that is not stored in Unicode, or b"" if there are
        none."""
        return self._streams.get(f"__substg1.0_{number:04X}{_TEXT8_TYPE:04X}", b"")

    def get_data(self, number: int) -> bytes:
        return self._streams.get(f"__substg1.0_{number:04X}{_BINARY_TYPE:04X}", b"")

    def get_number(self, number: int) -> int | None:
        value = self._read_value(self._fixed.int_prop_value, number)
        return value if isinstance(value, int) else None

    def get_date(self, number: int) -> datetime | None:
        value = self._read_value(self._fixed.date_prop_value, number)
        return value if isinstance(value, datetime) else None

    def _read_value(self, read: Callable[[int], object], number: int) -> object:
        with suppress(Exception):  # a damaged property is skipped; the message is still read
            return read(number)
        return None


def _build_message(storage: Any, header_bytes: int, names: Mapping[int, int]) -> Message:
    """Build the MIME message for the storage of an Outlook message. `names` are the numbers of its
    named properties."""
    properties = _Properties(storage, header_bytes)
    message = _build_head(storage, properties)
    message["Content-Type"] = "multipart/mixed"
    parts: list[Message] = [*_read_bodies(properties)]
    parts += _read_attachments(storage, properties.codec, names)
    event = format_event(
        properties.get_line(_SUBJECT), properties.get_line(_MESSAGE_CLASS), properties, names
    )
    if event:
        parts.append(_make_part(CALENDAR, event, charset="utf-8"))
    message.set_payload([*parts])
    return message


def _build_head(storage: Any, properties: _Properties) -> Message:
    """Build the header fields from the received headers, or else from Outlook's properties."""
    fields = HeaderParser().parsestr(properties.get_text(_HEADERS).lstrip())
    people = _read_recipients(storage, properties.codec)
    sent = properties.get_date(_SENT) or properties.get_date(_DELIVERED)
    sender = _format_address(
        properties.get_line(_SENDER_NAME, _SENT_FOR_NAME), properties.get_line(*_SENDER_ADDRESSES)
    )
    stored = {
        "From": sender,
        "To": ", ".join(people[_TO]),
        "Cc": ", ".join(people[_CC]),
        "Date": format_datetime(sent) if sent else "",
        **{name: properties.get_line(number) for name, number in _IDS.items()},
    }
    head = Message()
    head["Subject"] = properties.get_line(_SUBJECT) or str(fields["Subject"] or "")
    for name, value in stored.items():
        text = " ".join(str(fields[name] or value).split())
        if text:
            head[name] = text
    return head


def _read_recipients(storage: Any, codec: str) -> dict[int, list[str]]:
    people: dict[int, list[str]] = {_TO: [], _CC: []}
    for recipient in storage.iter_recipient_storages():
        properties = _Properties(recipient, _PART_HEADER_BYTES, codec)
        kind = (properties.get_number(_RECIPIENT_TYPE) or _TO) & 0xF
        address = _format_address(
            properties.get_line(_DISPLAY_NAME), properties.get_line(*_ADDRESSES)
        )
        if kind in people and address:
            people[kind].append(address)
    return people


def _format_address(name: str, address: str) -> str:
    """Format a name with its internet address. Internal addresses of Exchange are left out."""
    if "@" not in address:
        return name
    return f'"{name}" <{address}>' if name and name != address else address


def _read_bodies(properties: _Properties) -> Iterator[Message]:
    """Yield the text of a message: plain text, HTML, or both. RTF becomes plain text if the message
    has neither."""
    codec = properties.find_codec(_INTERNET_CODEPAGE)
    html, html_codec = properties.get_data(_HTML) or properties.read_narrow(_HTML), codec
    if not html and properties.get_text(_HTML):
        html, html_codec = properties.get_text(_HTML).encode("utf-8", "replace"), "utf-8"
    plain = properties.get_text(_BODY)
    if not plain.strip() and not html.strip():
        rtf = decompress_rtf(properties.get_data(_RTF))
        if rtf.lstrip().startswith(b"{\\rtf"):
            plain = "\n\n".join(block.text for block in read_rtf(rtf))
    bodies: list[Message] = []
    if plain.strip():
        bodies.append(_make_part("text/plain", plain.encode("utf-8", "replace"), charset="utf-8"))
    if html.strip():
        bodies.append(_make_part("text/html", html, charset=html_codec))
    if len(bodies) == 2:
        both = Message()
        both["Content-Type"] = "multipart/alternative"
        both.set_payload([*bodies])
        yield both
    else:
        yield from bodies


def _read_attachments(storage: Any, codec: str, names: Mapping[int, int]) -> Iterator[Message]:
    for attachment in storage.iter_attachment_storages():
        embedded = next((below for below in attachment.storages if below.name == _EMBEDDED), None)
        if embedded is not None:
            part = Message()
            part["Content-Type"] = MAIL
            part.set_payload([_build_message(embedded, _EMBEDDED_HEADER_BYTES, names)])
            yield part
            continue
        properties = _Properties(attachment, _PART_HEADER_BYTES, codec)
        name, data = properties.get_line(*_FILE_NAMES), properties.get_data(_FILE_DATA)
        kind = properties.get_line(_FILE_TYPE).lower()
        if kind.startswith("multipart/"):  # a signed message is stored as received
            yield BytesParser().parsebytes(data)
        elif data:
            part = _make_part(kind if kind.count("/") == 1 else guess_type(name), data)
            part.add_header("Content-Disposition", "attachment", filename=name or "Attachment")
            yield part


def _make_part(kind: str, data: bytes, charset: str = "") -> Message:
    part = Message()
    part["Content-Type"] = f'{kind}; charset="{charset}"' if charset else kind
    part.set_payload(data.decode("ascii", "surrogateescape"))
    return part


def _decode(data: bytes, codec: str) -> str:
    with suppress(LookupError):
        return data.decode(codec, "replace")
    return data.decode("cp1252", "replace")


def decompress_rtf(data: bytes) -> bytes:
    """Decompress RTF text (MS-OXRTFCP). If the data is damaged, returns the text up to the damage.

    >>> decompress_rtf(b"\\x0d\\0\\0\\0\\x01\\0\\0\\0MELA\\0\\0\\0\\0{")
    b'{'
    """
    size = int.from_bytes(data[4:8], "little")
    kind, packed = data[8:12], data[_RTF_HEAD_BYTES:]
    if kind == b"MELA":
        return packed[:size]
    if kind != b"LZFu":
        return b""
    text = bytearray(_RTF_DICTIONARY)
    end, index = len(text) + size, 0
    while index < len(packed) and len(text) < end:
        flags, index = packed[index], index + 1
        for bit in range(8):
            if not flags >> bit & 1:
                text += packed[index : index + 1]
                index += 1
                continue
            reference = int.from_bytes(packed[index : index + 2], "big")
            index += 2
            start, length = reference >> 4, (reference & 0xF) + 2
            # The window is a ring buffer, so a position refers to its last turn.
            back = (len(text) - start) % _WINDOW
            if back == 0 or back > len(text):
                return bytes(text[len(_RTF_DICTIONARY) : end])
            copied = text[-back:][:length]
            text += (copied * -(-length // back))[:length]
    return bytes(text[len(_RTF_DICTIONARY) : end])
