"""Reads the header of a message: subject, date, and the ids of the messages to which it replies.

Anyone can send an email, and this code runs in the daemon. Each field is therefore cut to a fixed
length before it is parsed, and every step takes linear time, which the standard library's
`email.header` does not guarantee.
"""

import base64
import binascii
import quopri
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase

from connectors.charset_labels import list_codecs
from connectors.protocol import Fetched, format_iso_date

MEDIA_TYPE = "message/rfc822"
MAX_HEAD_BYTES = 256 * 1024

MAX_FIELD_CHARACTERS = 4_000
"""The maximum length of a subject or an address that is read."""

_MAX_DATE_CHARACTERS = 200
_MAX_IDS_CHARACTERS = 64 * 1024
_MAX_LINKS = 100
_HEAD_END = re.compile(rb"\r?\n\r?\n")
# RFC 2047 forbids spaces and `?` within a word, but mail programs write both. The length of a word
# is limited, so that a field full of openings is read in linear time.
_ENCODED_WORD = re.compile(
    r"=\?([^?\s]{1,60})\?([bBqQ])\?((?:[^?\s]|\?(?!=)|[ \t](?!=\?)){0,2000}+)\?="
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_LANGUAGE = re.compile(r"\*.*")  # RFC 2231: `utf-8*en`
_MESSAGE_ID = re.compile(r"<([!-;=?-~]{1,250})>")
_DISCARDED = frozenset(("spam", "trash"))
# Labels that Gmail sets by itself say nothing about the message.
_LABELS_OF_GMAIL = frozenset(
    "inbox sent important opened unread starred archived drafts chat".split()
)


def make_fetched(data: bytes, revision: str) -> Fetched:
    """Return the unchanged message `data` with its metadata. Its links are the ids of the messages
    to which it replies."""
    head = parse_head(data)
    return Fetched(
        data,
        revision,
        MEDIA_TYPE,
        title=_decode_field(head, "Subject"),
        links=_read_answered_ids(head),
        origin=_read_origin(head),
    )


def _read_origin(head: Message) -> dict[str, str]:
    origin = {
        "author": _decode_field(head, "From"),
        "date": format_iso_date(read_sent_ms(head)),
        "message_id": read_message_id(head),
    }
    return {key: text for key, text in origin.items() if text}


def parse_head(data: bytes) -> Message:
    """Parse the header of a message. Only the first 256 KiB of a longer header are parsed."""
    match = _HEAD_END.search(data, 0, MAX_HEAD_BYTES)
    return BytesHeaderParser().parsebytes(data[: match.start() if match else MAX_HEAD_BYTES])


def read_message_id(head: Message) -> str | None:
    """Return the Message-ID without its brackets, or None if there is no valid id of up to 250
    characters."""
    match = _MESSAGE_ID.search(_read_raw_field(head, "Message-ID"))
    return match[1] if match else None


def list_labels(head: Message) -> tuple[str, ...]:
    """Return the user's labels of a message that Google Takeout exported."""
    labels = (label for label in _split_labels(head) if label.lower() not in _LABELS_OF_GMAIL)
    return tuple(label for label in labels if not label.lower().startswith("category "))


def is_discarded(head: Message) -> bool:
    """Whether Google Takeout exported the message from the spam or trash folder."""
    return not _DISCARDED.isdisjoint(label.lower() for label in _split_labels(head))


def _split_labels(head: Message) -> list[str]:
    labels = read_field(head, "X-Gmail-Labels").split(",")
    return [label for part in labels if (label := part.strip(' "'))]


def is_wanted(folder: str, patterns: Sequence[str]) -> bool:
    """Whether a mail folder is selected. The last shell pattern that matches its name applies.

    >>> is_wanted("Lists/Spam", ("*", "!*Spam*")), is_wanted("Lists", ("*", "!*Spam*"))
    (False, True)
    """
    verdicts = [p for p in patterns if fnmatchcase(folder, p.removeprefix("!"))]
    return bool(verdicts) and not verdicts[-1].startswith("!")


def describe_too_large(size_bytes: int, max_bytes: int) -> tuple[str, str]:
    return (
        f"the message is too large: {size_bytes:,} bytes; the limit is {max_bytes:,}",
        "Raise `max_bytes` of the source in config.toml.",
    )


def decode_words(raw: str) -> str:
    """Decode the encoded words (RFC 2047) in a field. Invalid words stay unchanged.

    >>> decode_words("=?utf-8?q?Caf=C3=A9?= =?utf-8?b?IGF0IDg=?= tonight")
    'Café at 8 tonight'
    """
    pieces: list[str] = []
    run, run_charset, run_raw = bytearray(), "", ""  # adjacent words, which may split a character
    end = 0

    def close_run() -> None:
        nonlocal run_raw
        if run_raw:
            pieces.append(_decode_charset(bytes(run), run_charset, run_raw))
            run.clear()
            run_raw = ""

    for word in _ENCODED_WORD.finditer(raw):
        between = raw[end : word.start()]
        follows = bool(run_raw) and not between.strip()
        charset = _LANGUAGE.sub("", word[1]).lower()
        if not follows or charset != run_charset:
            close_run()
        if not follows:
            pieces.append(between)
        end = word.end()
        data = _decode_word_bytes(word[2], word[3])
        if data is None:
            close_run()
            pieces.append(word[0])
            continue
        run += data
        run_charset, run_raw = charset, run_raw + word[0]
    close_run()
    return "".join((*pieces, raw[end:]))


def _decode_word_bytes(encoding: str, text: str) -> bytes | None:
    if encoding in "qQ":
        return quopri.decodestring(text.encode("utf-8", "surrogateescape"), header=True)
    try:
        return base64.b64decode(f"{text.rstrip('=')}{'=' * (-len(text.rstrip('=')) % 4)}")
    except (binascii.Error, ValueError):
        return None


def _decode_charset(data: bytes, charset: str, raw: str) -> str:
    names = list_codecs(charset)
    if not names:
        return raw
    for codec in (*names, "utf-8"):  # mail programs declare other charsets for UTF-8
        with suppress(ValueError):
            return data.decode(codec)
    return data.decode(names[0], "replace")


def read_field(head: Message, name: str, limit: int = MAX_FIELD_CHARACTERS) -> str:
    """Return a header field as readable text in one line, or an empty string if it is missing.

    Encoded words and other text that is not ASCII are decoded.
    """
    raw = _read_raw_field(head, name, limit)
    declared = None if raw.isascii() else _CHARSET.search(_read_raw_field(head, "Content-Type"))
    return decode_raw(raw, declared[1] if declared else "")


def decode_raw(raw: str, charset: str = "") -> str:
    """Decode a raw field, in which bytes that are not ASCII are surrogate characters.

    UTF-8, the character set of the message and Windows-1252 are tried in this order.
    """
    if not raw.isascii() or "\x1b" in raw:
        data = raw.encode("utf-8", "surrogateescape")
        jis = ("iso2022_jp",) if "\x1b" in raw else ()
        for codec in (*jis, "utf-8", *list_codecs(charset), "cp1252", "latin-1"):
            with suppress(ValueError):
                raw = data.decode(codec)
                break
    return " ".join(decode_words(raw).replace("\0", "").split())


def _decode_field(head: Message, name: str) -> str | None:
    return read_field(head, name) or None


def _read_raw_field(head: Message, name: str, limit: int = MAX_FIELD_CHARACTERS) -> str:
    """Return the first field with this name as written. Bytes that are not ASCII are surrogate
    characters."""
    lower_name = name.lower()
    for key, value in head.raw_items():
        if key.lower() == lower_name:
            return str(value)[:limit]
    return ""


def _read_answered_ids(head: Message) -> tuple[str, ...]:
    """Return the Message-IDs of the messages to which a message replies: the last 100 in the fields
    References and In-Reply-To."""
    fields = [
        _read_raw_field(head, name, sys.maxsize)[-_MAX_IDS_CHARACTERS:]
        for name in ("References", "In-Reply-To")
    ]
    ids = dict.fromkeys(_MESSAGE_ID.findall(" ".join(fields)))
    return tuple(ids)[-_MAX_LINKS:]


def read_sent_ms(head: Message) -> int | None:
    """Return when the message was sent (Unix ms), or None if it has no valid date."""
    try:
        sent = parsedate_to_datetime(_read_raw_field(head, "Date", _MAX_DATE_CHARACTERS))
        # A time without a zone, as with `-0000`, is in UTC (RFC 5322, 3.3).
        return int((sent if sent.tzinfo else sent.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
