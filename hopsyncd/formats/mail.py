"""Reads mail: the subject as title, then sender, recipients, date, text and attachments.

The Message-ID is the name of a message. A message links to the messages to which it replies,
nearest first. An attached or inline message comes below its own subject, sender and date.

Quotations are left out and counted, because the quoted message contains their text. A message that
consists only of quotations keeps them. Line numbers count the lines of the extracted text, not of
the raw message.
"""

import binascii
import mimetypes
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message
from email.parser import BytesParser, Parser
from functools import partial

from connectors.mail.mbox import split_messages
from connectors.mail.message import (
    decode_raw,
    is_discarded,
    list_labels,
    parse_head,
    read_field,
    read_sent_ms,
)
from connectors.media_type import guess_media_type, is_document_name, is_text_name
from connectors.protocol import format_iso_date
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import (
    DISCARDED,
    Block,
    add_properties,
    count_skipped,
    lower_headings,
    make_name_link,
    make_skipped_block,
)
from hopsyncd.formats.content_type import is_mail
from hopsyncd.formats.decode import decode
from hopsyncd.formats.mail_text import (
    KnownLines,
    cut_quoted_html,
    is_forward,
    is_stub,
    read_forwarded_fields,
    separate_quotes,
)
from hopsyncd.formats.media_types import CALENDAR, MAIL
from hopsyncd.formats.pgp_armor import remove_armor

Extract = Callable[[bytes, str], tuple[Block, ...]]

_MAX_FIELD_CHARACTERS = 500
_UNTOLD = ("application/octet-stream", "application/x-unknown", "application/binary")
_SIGNATURES = tuple(f"application/{name}-signature" for name in ("pgp", "pkcs7", "x-pkcs7"))
_REPORT = "message/delivery-status"
_APPEARANCE = ("text/css", "text/javascript", "application/javascript")  # of a saved web page

_MESSAGE_ID = re.compile(r"<([!-;=?-~]{1,250})>")
_MAX_ANSWERED = 100
_QUOTED_NAME = re.compile(r'"((?:[^"\\]|\\.){1,200})"(?=\s*<)')
# programs do not display this part
_TITLE = re.compile(r"<title\b[^<>]*>[^<]*</title\s*>", re.IGNORECASE)
_MAX_REPAIRED = 5  # the most parts of a file that are repaired, because each is parsed again
_UU_BEGIN = re.compile(r"begin [0-7]{3,4}(?: (\S.{0,200})| ?)\Z")


def read_mail(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read a message; `extract` reads its HTML and attached documents.

    An attachment that cannot be read is skipped and counted. Raises DocumentUnreadable for a
    message whose parts are nested too deeply.
    """
    return read_message(lambda: BytesParser().parsebytes(data), extract)


def read_message(parse: Callable[[], Message], extract: Extract) -> tuple[Block, ...]:
    """Read the message that `parse` returns, like `read_mail`."""
    reader = _MailReader(extract, None)
    return _renumber_lines([*_read_blocks(parse, reader), *reader.make_skipped_blocks()])


def read_mbox(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read the messages of an mbox file, each as a section; line numbers count the messages, from
    1.

    Only quotations and signatures that earlier messages contain are left out, and messages from
    Gmail's spam and trash. The document has the authors and labels of all messages, and the date of
    the newest message. A file with a single message and no `From ` line is also read. Raises
    DocumentUnreadable for other files.
    """
    blocks: list[Block] = []
    facts: set[tuple[str, str]] = set()
    reader = _MailReader(extract, KnownLines())
    number = 0
    for number, message in enumerate(split_messages(data), 1):
        if is_discarded(parse_head(message)):
            reader.count_discarded()
            continue
        # A message without a subject must not be nested in the previous message.
        section = (
            Block("heading", "", 1, 1, level=1),
            *_read_blocks(partial(BytesParser().parsebytes, message), reader),
        )
        for block in section:
            facts.update(block.properties)
            # Links between messages of one file would connect the document with itself.
            links = () if block.names else block.links
            blocks.append(
                replace(
                    block, names=(), links=links, properties=(), first_line=number, last_line=number
                )
            )
    if not number and is_mail(data):  # some programs name a single message so
        return read_mail(data, extract)
    if not number and data.strip():
        raise DocumentUnreadable(
            "the document",
            "not an mbox file: no line begins with `From `",
            "Give the file the extension of its real type, or add it to `ignore`",
        )
    return (*add_properties(blocks, sorted(facts)), *reader.make_skipped_blocks())


def _read_blocks(parse: Callable[[], Message], reader: "_MailReader") -> list[Block]:
    try:
        message = parse()
        return [*_add_ids(message, _make_head(message)), *reader.read_content(message)]
    except RecursionError as error:
        raise make_depth_error() from error


def make_depth_error() -> DocumentUnreadable:
    """Make the error for a message with too deeply nested messages."""
    return DocumentUnreadable(
        "the message",
        "the parts of the message are nested too deeply",
        "Delete the forwarded messages in the message, or add the file to `ignore`",
    )


def _make_head(message: Message) -> list[Block]:
    """Return the subject as a heading, and a line with the sender, the recipients and the date."""
    fields = {
        name: _read_field_value(message, name) for name in ("from", "to", "cc", "date", "subject")
    }
    return [*_make_head_blocks(fields)]


def _make_head_blocks(
    fields: Mapping[str, str], level: int = 1, untitled: str = ""
) -> Iterator[Block]:
    title = fields.get("subject") or untitled
    if not title and fields.get("from"):
        title = f"Mail from {_format_person(fields['from'])}"
    if title:
        yield Block("heading", title, 1, 1, level=level)
    line = format_sender(fields)
    if line:
        yield Block("paragraph", line, 1, 1)


def format_sender(fields: Mapping[str, str]) -> str:
    """Format the sender, recipients and date in one line.

    >>> format_sender({"from": "Ann <a@x.org>", "to": "b@x.org", "date": "3 Mar 2026 09:12 +0100"})
    'From Ann <a@x.org> to b@x.org, date 3 Mar 2026 09:12 +0100'
    """
    people = " ".join(f"{name} {fields[name]}" for name in ("from", "to") if fields.get(name))
    details = [f"{name} {fields[name]}" for name in ("cc", "date") if fields.get(name)]
    line = ", ".join(filter(None, (people, *details)))
    return line[:1].upper() + line[1:]


def _format_person(field: str) -> str:
    """Return the name in an address, or else the address itself."""
    name = field.partition("<")[0].strip(' "')
    return name or field.strip("<> ")


def _add_ids(message: Message, head: list[Block]) -> list[Block]:
    """Add a message's id, author, date and labels to the first block of its head, and the ids of
    the messages to which the message replies as links."""
    if not head:
        return head
    fields = [str(message.get(name, "")) for name in ("Message-ID", "In-Reply-To", "References")]
    message_ids, answered, older = map(_MESSAGE_ID.findall, fields)
    ids = dict.fromkeys([*answered, *reversed(older)])
    links = [link for id_ in [*ids][:_MAX_ANSWERED] if (link := make_name_link(id_))]
    properties = (
        ("author", _read_field_value(message, "from")),
        ("modified", format_iso_date(read_sent_ms(message)) or ""),
        *(("tag", label) for label in list_labels(message)),
    )
    first = replace(
        head[0],
        names=tuple(message_ids[:1]),
        links=tuple((0, link) for link in links),
        properties=tuple((name, value) for name, value in properties if value),
    )
    return [first, *head[1:]]


@dataclass(frozen=True, slots=True)
class _Attachment:
    name: str
    kind: str
    data: bytes
    charset: str = ""


class _MailReader:
    """Reads the parts of messages, and counts the parts that it leaves out.

    If `known` is given, only quotations of known lines are left out.
    """

    def __init__(self, extract: Extract, known: KnownLines | None) -> None:
        self._extract = extract
        self._known = known
        self._skipped: Counter[str] = Counter()
        self._calendars: set[bytes] = set()
        self._repaired = 0

    def make_skipped_blocks(self) -> tuple[Block, ...]:
        """Return the block that counts the skipped parts, or nothing if no part was skipped."""
        return (make_skipped_block(self._skipped),) if self._skipped.total() else ()

    def count_discarded(self) -> None:
        """Count a message from the spam or trash folder."""
        self._skipped[DISCARDED] += 1

    def read_content(self, message: Message) -> Iterator[Block]:
        """Read the blocks of a message below its head."""
        forwards = is_forward(_read_field_value(message, "subject"))
        yield from self._read_part(message, forwards=forwards)

    def _read_part(self, part: Message, *, forwards: bool) -> Iterator[Block]:
        kind = part.get_content_type()
        if kind == _REPORT:
            self._skipped["delivery reports"] += 1
        elif kind == MAIL and part.is_multipart():
            for message in map(partial(_decode_message, part), _list_parts(part)):
                yield from lower_headings([*_make_head(message), *self.read_content(message)], 1)
        elif kind == "multipart/alternative":
            yield from self._read_alternatives(part, forwards=forwards)
        elif part.is_multipart():
            for below in _list_parts(part):
                yield from self._read_part(below, forwards=forwards)
        elif part.get_content_maintype() == "multipart" and self._repaired < _MAX_REPAIRED:
            self._repaired += 1
            yield from self._read_part(_repair_boundary(part), forwards=forwards)
        elif _is_body(part):
            yield from self._read_body(kind, _decode_text(part), forwards=forwards)
        else:
            yield from self._read_attachment(_decode_attachment(part))

    def _read_alternatives(self, part: Message, *, forwards: bool) -> Iterator[Block]:
        """Read the best version of the text, and the attachments of all versions."""
        leaves = [*_list_leaves(part)]
        bodies = [leaf for leaf in leaves if _is_body(leaf)]
        texts = {kind: _join(bodies, kind) for kind in ("text/plain", "text/html")}
        plain, html = texts["text/plain"], texts["text/html"]
        kind = "text/html" if html.strip() and is_stub(plain, html) else "text/plain"
        if texts[kind].strip():
            yield from self._read_body(kind, texts[kind], forwards=forwards)
        for leaf in leaves:
            if leaf not in bodies:
                yield from self._read_part(leaf, forwards=forwards)

    def _read_body(self, kind: str, text: str, *, forwards: bool) -> Iterator[Block]:
        if kind == "text/html":
            yield from _make_forwarded_heads(
                lower_headings(self._read_page(text, forwards=forwards), 1)
            )
            return
        text, attachments = _remove_uuencoded(text)
        text, armored = remove_armor(text)
        self._skipped.update(armored)
        written = separate_quotes(text, self._known, forwards=forwards)
        self._skipped.update(quotes=written.quotes, signatures=written.signatures)
        if self._known is not None:
            self._known.add(text)
        for part in written.parts:
            if part.fields:
                yield from _make_head_blocks(part.fields, 2, "Forwarded message")
            yield from lower_headings(self._read(part.text, kind), 2 if part.fields else 1)
        for attachment in attachments:
            yield from self._read_attachment(attachment)

    def _read_page(self, text: str, *, forwards: bool) -> list[Block]:
        """Read a message in HTML, without its quotations."""
        page = _TITLE.sub("", text)
        written, quotes = cut_quoted_html(page, forwards=forwards)
        if self._known is None or not quotes:
            self._skipped["quotes"] += quotes
            blocks = [*self._read(written, "text/html")]
        else:  # leave out only quotations of known lines
            blocks, before = [*self._read(page, "text/html")], [*self._read(written, "text/html")]
            quoted = [line for b in blocks[len(before) :] for line in b.text.split("\n")]
            if self._known.knows(quoted):
                self._skipped["quotes"] += quotes
                blocks = before
        if self._known is not None:
            self._known.add("\n".join(block.text for block in blocks))
        return blocks

    def _read_attachment(self, attachment: _Attachment) -> Iterator[Block]:
        kind, data = attachment.kind, attachment.data
        if kind in _APPEARANCE:
            return
        if kind == CALENDAR:
            if data.strip() in self._calendars:
                return
            self._calendars.add(data.strip())
            yield from lower_headings(self._read(data, kind, attachment.charset), 1)
            return
        blocks = [*self._read(data, kind, attachment.charset)]
        if blocks:
            yield Block("heading", attachment.name or "Attachment", 1, 1, level=2)
            yield from (replace(block, names=()) for block in lower_headings(blocks, 2))
        elif kind not in _SIGNATURES and data.strip():
            self._skipped["pictures" if kind.startswith("image/") else "attachments"] += 1

    def _read(self, data: bytes | str, kind: str, charset: str = "") -> Iterator[Block]:
        if isinstance(data, str):
            data, charset = data.encode("utf-8", "replace"), "utf-8"
        media_type = f"{kind}; charset={charset}" if charset else kind
        blocks = extract_attachment(data, media_type, self._extract)
        self._skipped.update(count_skipped(blocks))
        yield from (block for block in blocks if block.kind != "skipped")


def extract_attachment(data: bytes, media_type: str, extract: Extract) -> tuple[Block, ...]:
    """Read an attached document with `extract`. Returns () if it cannot be read."""
    try:
        return extract(data, media_type)
    except (MemoryError, RecursionError, ReaderUnavailable):
        raise
    except Exception:  # noqa: BLE001 - whatever a parser raises, the attachment is at fault
        return ()


def _list_parts(part: Message) -> list[Message]:
    payload = part.get_payload()
    return (
        [part for part in payload if isinstance(part, Message)] if isinstance(payload, list) else []
    )


def _decode_message(part: Message, message: Message) -> Message:
    """Decode an attached message that is in Base64. Some programs send messages in this form, which
    the standard forbids and the parser therefore does not decode."""
    text = message.get_payload()
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() != "base64":
        return message
    if message.keys() or not isinstance(text, str):
        return message
    with suppress(ValueError):
        return BytesParser().parsebytes(binascii.a2b_base64(text.encode("ascii")))
    return message


def _repair_boundary(part: Message) -> Message:
    """Parse a multipart part whose declared boundary does not occur in its content.

    The boundary is taken from the first line that begins with `--` and occurs twice. Without such a
    line, the content becomes plain text.
    """
    payload = part.get_payload()
    text = payload if isinstance(payload, str) else ""
    lines = [line.rstrip() for line in text.splitlines() if line.startswith("--")]
    count = Counter(line.removesuffix("--") for line in lines)  # the last boundary ends with them
    found = next((line for line in lines if len(line) > 2 and count[line] > 1), "")
    kind = part.get_content_type() if found else "text/plain"
    boundary = f'; boundary="{found[2:]}"' if found else ""
    return Parser().parsestr(f"Content-Type: {kind}{boundary}\n\n{text}")


def _list_leaves(part: Message) -> Iterator[Message]:
    """Yield the parts inside a part, without the `multipart` containers."""
    for below in _list_parts(part):
        if below.get_content_maintype() == "multipart" and below.is_multipart():
            yield from _list_leaves(below)
        else:
            yield below


def _is_body(part: Message) -> bool:
    is_text = part.get_content_type() in ("text/plain", "text/html")
    return is_text and part.get_content_disposition() != "attachment"


def _join(bodies: list[Message], kind: str) -> str:
    return "\n".join(_decode_text(body) for body in bodies if body.get_content_type() == kind)


def _decode_text(part: Message) -> str:
    data, charset = _decode_bytes(part), part.get_content_charset()
    try:
        return decode(data, charset, part.get_content_type())
    except DocumentUnreadable:
        return data.replace(b"\0", b"").decode("cp1252", "replace").replace("\r\n", "\n")


def _decode_bytes(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _decode_attachment(part: Message) -> _Attachment:
    name = decode_raw(part.get_filename() or "")
    kind = part.get_content_type()
    if kind in _UNTOLD:
        kind = guess_type(name)
    return _Attachment(name, kind, _decode_bytes(part), part.get_content_charset("") or "")


def guess_type(name: str) -> str:
    """Guess the media type of an attachment from its name, if the message does not declare a
    type."""
    if is_document_name(name) or is_text_name(name):
        return guess_media_type(name)
    return mimetypes.guess_type(name)[0] or _UNTOLD[0]


def _remove_uuencoded(text: str) -> tuple[str, list[_Attachment]]:
    """Remove uuencoded files from text. Returns the remaining text and the files."""
    if "\nend" not in text or "begin " not in text:
        return text, []
    lines = text.split("\n")
    remaining: list[str] = []
    files: list[_Attachment] = []
    index = 0
    while index < len(lines):
        found = _UU_BEGIN.match(lines[index])
        end, data = _find_uuencoded(lines, index + 1) if found else (index, None)
        if found and data is not None:
            name = found[1] or ""
            files.append(_Attachment(name, guess_type(name), data))
            index = end
        else:
            remaining.append(lines[index])
            index += 1
    return "\n".join(remaining), files


def _find_uuencoded(lines: list[str], index: int) -> tuple[int, bytes | None]:
    """Decode uuencoded lines from position `index` to the line `end`.

    Returns the next position and the data. The data is None if the lines are not uuencoded.
    """
    data = bytearray()
    while index < len(lines) and lines[index].rstrip() != "end":
        try:
            data += binascii.a2b_uu(lines[index].encode("ascii"))
        except (ValueError, binascii.Error):
            return index, None
        index += 1
    return (index + 1, bytes(data)) if index < len(lines) else (index, None)


def _make_forwarded_heads(blocks: Iterable[Block]) -> Iterator[Block]:
    """Turn the header lines of a forwarded message into a heading and a line with its sender.

    The blocks of the forwarded message are nested below this heading.
    """
    deeper = 0
    for block in blocks:
        fields = read_forwarded_fields(block.text) if block.kind == "paragraph" else {}
        if fields:
            deeper = 1
            yield from _make_head_blocks(fields, 2, "Forwarded message")
        else:
            yield from lower_headings([block], deeper)


def _read_field_value(message: Message, name: str) -> str:
    text = _QUOTED_NAME.sub(r"\1", read_field(message, name))
    text = text.encode("utf-8", "replace").decode()
    if name == "from" and text.startswith("<Saved by "):  # a web page that a browser saved
        return ""
    if len(text) > _MAX_FIELD_CHARACTERS:
        text = text[: _MAX_FIELD_CHARACTERS - 1].rsplit(" ", 1)[0] + " …"
    return text


def _renumber_lines(blocks: list[Block]) -> tuple[Block, ...]:
    """Renumber the lines of the blocks, as if there were an empty line between blocks."""
    numbered, line = [], 1
    for block in blocks:
        last = line + block.text.count("\n")
        numbered.append(replace(block, first_line=line, last_line=last))
        line = last + 2
    return tuple(numbered)
