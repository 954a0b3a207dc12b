"""Reading the head of a message: subject, date, and the messages it answers."""

import re
from collections.abc import Sequence
from datetime import UTC
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase

from connectors.protocol import Fetched, iso_date

MEDIA_TYPE = "message/rfc822"
MAX_HEAD_BYTES = 256 * 1024

_MAX_LINKS = 100
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_MESSAGE_ID = re.compile(r"<([!-;=?-~]{1,250})>")


def fetched(data: bytes, revision: str) -> Fetched:
    """The message unchanged, with the ids of the messages it answers as its links."""
    head = head_of(data)
    return Fetched(
        data,
        revision,
        MEDIA_TYPE,
        title=_decoded(head, "Subject"),
        links=_answered(head),
        origin=_origin(head),
    )


def _origin(head: Message) -> dict[str, str]:
    origin = {
        "author": _decoded(head, "From"),
        "date": iso_date(_sent_ms(head)),
        "message_id": message_id(head),
    }
    return {key: text for key, text in origin.items() if text}


def head_of(data: bytes) -> Message:
    """The header fields of a message; only the first part of an overlong head."""
    found = _HEAD_END.search(data, 0, MAX_HEAD_BYTES)
    return BytesHeaderParser().parsebytes(data[: found.start() if found else MAX_HEAD_BYTES])


def message_id(head: Message) -> str | None:
    """The Message-ID without its brackets; None if there is no valid one."""
    found = _MESSAGE_ID.search(str(head.get("Message-ID", "")))
    return found[1] if found else None


def is_wanted(folder: str, patterns: Sequence[str]) -> bool:
    """Whether a mail folder is wanted: the last shell pattern that matches its name decides.

    >>> is_wanted("Lists/Spam", ("*", "!*Spam*")), is_wanted("Lists", ("*", "!*Spam*"))
    (False, True)
    """
    verdicts = [p for p in patterns if fnmatchcase(folder, p.removeprefix("!"))]
    return bool(verdicts) and not verdicts[-1].startswith("!")


def too_large(size_bytes: int, max_bytes: int) -> tuple[str, str]:
    return (
        f"it is too large: {size_bytes:,} bytes, the limit is {max_bytes:,}",
        "Raise `max_bytes` of its source in config.toml.",
    )


def _decoded(head: Message, name: str) -> str | None:
    raw = str(head.get(name, ""))
    try:
        text = str(make_header(decode_header(raw)))
    except (HeaderParseError, LookupError, ValueError):
        text = raw
    return " ".join(text.split()) or None


def _answered(head: Message) -> tuple[str, ...]:
    """The messages that it answers; the last ones if a long thread names many."""
    fields = [str(head.get(name, "")) for name in ("References", "In-Reply-To")]
    ids = dict.fromkeys(_MESSAGE_ID.findall(" ".join(fields)))
    return tuple(ids)[-_MAX_LINKS:]


def _sent_ms(head: Message) -> int | None:
    try:
        sent = parsedate_to_datetime(str(head.get("Date", "")))
        # A time without a zone, as with `-0000`, is in UTC (RFC 5322, 3.3).
        return int((sent if sent.tzinfo else sent.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
