"""The words of IMAP that its library leaves to its users: folder names and rows of answers."""

import base64
import binascii
import imaplib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Answer: TypeAlias = Sequence[Any]
"""What imaplib gives: bytes, or (bytes, literal) pairs, or None."""

_ROW = re.compile(rb"^\d+ \(")
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_LISTED = re.compile(rb'^\(([^)]*)\) (?:(?i:NIL)|"(?:\\.|[^"\\])*") (.+)$', re.DOTALL)
_SHIFTED = re.compile(r"&([^-]*)-")


@dataclass(frozen=True, slots=True)
class Listed:
    """A folder: `raw` as the server names it, `name` as people read it, `flags` in lower case."""

    name: str
    raw: str
    flags: frozenset[str]


def listed_folders(data: Answer) -> list[Listed]:
    """The folders in an answer to LIST. Raises IMAP4.abort: one passed over would seem gone."""
    folders = []
    for row in data:
        head, literal = row if isinstance(row, tuple) else (row, None)
        if not head:
            continue
        found = _LISTED.match(head)
        if found is None:
            raise imaplib.IMAP4.abort(f"the server lists a folder as {head[:100]!r}")
        raw = (_unquoted(found[2]) if literal is None else literal).decode("latin-1")
        flags = frozenset(found[1].decode("ascii", "replace").lower().split())
        folders.append(Listed(_readable(raw), raw, flags))
    return folders


def fetch_rows(data: Answer) -> list[tuple[int, int]]:
    """UID and size of each message in an answer to FETCH."""
    rows = []
    for row in data:
        if isinstance(row, bytes) and _ROW.match(row):
            uid, size = _UID.search(row), _SIZE.search(row)
            if uid and size:
                rows.append((int(uid[1]), int(size[1])))
    return rows


def quoted(raw: str) -> str:
    r"""A folder's name as an argument. Raises ValueError for one that would end the command.

    >>> quoted('a "b"')
    '"a \\"b\\""'
    """
    if re.search(r"[\r\n\0]", raw):
        raise ValueError(f"the folder name {raw!r} has a line break")
    return '"' + raw.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquoted(text: bytes) -> bytes:
    text = text.strip()
    return re.sub(rb"\\(.)", rb"\1", text[1:-1]) if text.startswith(b'"') else text


def _readable(raw: str) -> str:
    """Modified UTF-7 (RFC 3501, 5.1.3) to text; what is none is left as it is.

    >>> _readable("Entw&APw-rfe"), _readable("R&-D")
    ('Entwürfe', 'R&D')
    """

    def decoded(found: re.Match[str]) -> str:
        if not found[1]:
            return "&"
        padded = found[1].replace(",", "/") + "=" * (-len(found[1]) % 4)
        return base64.b64decode(padded, validate=True).decode("utf-16-be")

    try:
        return _SHIFTED.sub(decoded, raw)
    except (binascii.Error, UnicodeDecodeError):
        return raw
