"""Mail: the subject as title, who wrote to whom and when, the text, the attachments.

The name of a message is its Message-ID; it links to the messages it answers, nearest first.

Quotations are left out, because the message that was answered has them; a message of nothing
else keeps them. Lines are counted in the text as it is read here, not in the raw message.
"""

import mimetypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser

from connectors.mail.mbox import messages_of
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block, link_to_name

Extract = Callable[[bytes, str], tuple[Block, ...]]

MAIL = "message/rfc822"

_SHOWN = ("From", "To", "Cc", "Date")
_MAX_FIELD_CHARACTERS = 500
_UNTOLD = ("application/octet-stream", "application/x-unknown")

_MESSAGE_ID = re.compile(r"<([!-;=?-~]{1,250})>")
_MAX_ANSWERED = 100

_SAID = re.compile(r"@|\b\d{4}\b|\d{1,2}:\d{2}")
_ORIGINAL = re.compile(
    r"^(?:-{3,} ?(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|Messaggio originale) ?-{3,}|_{20,})\s*$",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"^-- ?$")
_HTML_QUOTE = re.compile(
    r"""<(?:div|blockquote)\b[^<>]{0,300}?(?:class=["']?(?:gmail_quote|yahoo_quoted|moz-cite-prefix)"""
    r"""|type=["']?cite|id=["']?(?:divRplyFwdMsg|appendonsend))""",
    re.IGNORECASE,
)
_FORWARDED = re.compile(r"forwarded message|weitergeleitete nachricht|message transféré", re.I)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A part that holds content itself; `is_body` if it is the text rather than an attachment."""

    part: Message
    is_body: bool


def mail_blocks(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read a message; `extract` reads its HTML and the attachments that are documents.

    An attachment that cannot be read is passed over. Raises DocumentUnreadable for a message whose
    parts are nested too deeply.
    """
    try:
        message = BytesParser().parsebytes(data)
        head = _with_ids(message, [*_head(message)])
        return _renumbered([*head, *_content(message, extract)])
    except RecursionError as error:
        raise DocumentUnreadable(
            "the message", "its parts are nested too deeply", "Leave it out."
        ) from error


def mbox_blocks(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read the messages of an mbox file, each as a section; lines number the messages, from 1.

    Raises DocumentUnreadable for a file in which no message begins.
    """
    blocks: list[Block] = []
    for number, message in enumerate(messages_of(data), 1):
        # A message without a subject must not stand under the one before.
        section = (Block("heading", "", 1, 1, level=1), *mail_blocks(message, extract))
        for at, block in enumerate(section):
            # The ids that the head names would join the document with itself.
            told = replace(block, names=(), links=()) if at == 1 else block
            blocks.append(replace(told, first_line=number, last_line=number))
    if not blocks and data.strip():
        raise DocumentUnreadable(
            "the document",
            "it is not what its name says: no message begins in it with a `From ` line",
            "Give it the ending of what it is, or leave it out by an ignore pattern",
        )
    return tuple(blocks)


def _head(message: Message) -> Iterator[Block]:
    subject = _field(message, "Subject")
    if subject:
        yield _block("heading", subject, level=1)
    lines = [f"{name}: {text}" for name in _SHOWN if (text := _field(message, name))]
    if lines:
        yield _block("paragraph", "\n".join(lines))


def _with_ids(message: Message, head: list[Block]) -> list[Block]:
    """The head; its first block has the message's id as a name, and the ids it answers as links."""
    said = [str(message.get(name, "")) for name in ("Message-ID", "In-Reply-To", "References")]
    own, answered, older = map(_MESSAGE_ID.findall, said)
    ids = dict.fromkeys([*answered, *reversed(older)])
    links = [link for id_ in [*ids][:_MAX_ANSWERED] if (link := link_to_name(id_))]
    return [
        replace(block, names=tuple(own[:1]), links=tuple((0, link) for link in links))
        if at == 0
        else block
        for at, block in enumerate(head)
    ]


def _content(message: Message, extract: Extract) -> Iterator[Block]:
    for leaf in _leaves(message, in_body=True):
        if leaf.is_body:
            yield from _body(leaf.part, extract)
        else:
            yield from _attachment(leaf.part, extract)


def _leaves(part: Message, *, in_body: bool) -> Iterator[_Leaf]:
    """The parts to read, in order; of alternatives, the plainest with text."""
    if not part.is_multipart():
        is_text = part.get_content_type() in ("text/plain", "text/html")
        yield _Leaf(part, in_body and is_text and part.get_content_disposition() != "attachment")
        return
    parts = [sub for sub in part.get_payload() if isinstance(sub, Message)]
    below = [leaf for sub in parts for leaf in _leaves(sub, in_body=in_body)]
    if part.get_content_type() == "multipart/alternative":
        yield from _plainest(below)
    else:
        yield from below


def _plainest(leaves: list[_Leaf]) -> list[_Leaf]:
    for kind in ("text/plain", "text/html"):
        fit = [leaf for leaf in leaves if leaf.part.get_content_type() == kind]
        if any(_bytes_of(leaf.part).strip() for leaf in fit):
            return fit
    return leaves


def _body(part: Message, extract: Extract) -> Iterator[Block]:
    kind = part.get_content_type()
    blocks = _read(part, kind, extract)
    for block in blocks:
        # Below the subject, whatever level the writer's program gives it.
        yield replace(block, level=min(block.level + 1, 6)) if block.level else block


def _attachment(part: Message, extract: Extract) -> Iterator[Block]:
    kind, name = part.get_content_type(), _decoded(part.get_filename() or "")
    if kind in _UNTOLD:
        kind = mimetypes.guess_type(name)[0] or kind
    blocks = _read(part, kind, extract)
    if blocks:
        yield _block("heading", name or "Attachment", level=2)
    for block in blocks:
        yield replace(block, level=min(block.level + 2, 6) if block.level else 0, names=())


def _read(part: Message, kind: str, extract: Extract) -> tuple[Block, ...]:
    data, charset = _bytes_of(part), part.get_content_charset("utf-8")
    is_body = not part.get_filename()
    if is_body and kind in ("text/plain", "text/html"):
        text = _text(data, charset)
        data, charset = (_own_words(text) if kind == "text/plain" else _own_html(text)).encode(), ""
    try:
        return extract(data, f"{kind}; charset={charset or 'utf-8'}")
    except (MemoryError, RecursionError, ReaderUnavailable):
        raise
    except Exception:  # noqa: BLE001 - whatever a parser raises, the attachment is at fault
        return ()


def _bytes_of(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text(data: bytes, charset: str) -> str:
    """Mail often declares a wrong charset: UTF-8 is tried first, as it rarely fits by luck."""
    for encoding in ("utf-8", charset):
        try:
            return data.decode(encoding).replace("\r\n", "\n").replace("\0", "")
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace").replace("\r\n", "\n").replace("\0", "")


def _own_words(text: str) -> str:
    """The text without quoted lines, the line that names their writer, and the signature.

    >>> _own_words("On 3 May 2026, Bob wrote:\\n> Shall we?\\n\\nYes.\\n-- \\nAnn Lee")
    'Yes.'
    """
    lines: list[str] = []
    for line in text.split("\n"):
        if _SIGNATURE.match(line) or _ORIGINAL.match(line):
            break
        if not line.startswith(">"):
            lines.append(line)
        elif lines and lines[-1] != _QUOTE:
            _drop_introduction(lines)
            lines.append(_QUOTE)
    own = "\n".join(line for line in lines if line != _QUOTE).strip()
    return own or text


_QUOTE = "\0"  # in place of a quotation; no line holds it


def _drop_introduction(lines: list[str]) -> None:
    """Drop the last paragraph if it introduces a quotation ("On Monday Ann wrote:")."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and end - begin < 3 and lines[begin - 1].strip() and lines[begin - 1] != _QUOTE:
        begin -= 1
    said = " ".join(lines[begin:end])
    if said.rstrip().endswith(":") and _SAID.search(said) and len(said) < 300:
        del lines[begin:]


def _own_html(html: str) -> str:
    """The HTML up to the quotation, as common programs mark it; a forwarded message is kept."""
    found = _HTML_QUOTE.search(html)
    if found is None or _FORWARDED.search(html, found.start(), found.start() + 1000):
        return html
    own = html[: found.start()]
    return own if re.sub(r"<[^<>]*>|&nbsp;|\s", "", _after_head(own)) else html


def _after_head(html: str) -> str:
    found = re.search(r"<body\b", html, re.IGNORECASE)
    return html[found.start() :] if found else html


def _field(message: Message, name: str) -> str:
    text = _decoded(str(message.get(name, "")))
    if len(text) > _MAX_FIELD_CHARACTERS:
        text = text[: _MAX_FIELD_CHARACTERS - 1].rsplit(" ", 1)[0] + " …"
    return text


def _decoded(raw: str) -> str:
    try:
        text = str(make_header(decode_header(raw)))
    except (HeaderParseError, LookupError, ValueError):
        text = raw
    return " ".join(text.replace("\0", "").encode("utf-8", "replace").decode().split())


def _block(kind: str, text: str, level: int = 0) -> Block:
    return Block("heading" if kind == "heading" else "paragraph", text, 1, 1, level)


def _renumbered(blocks: list[Block]) -> tuple[Block, ...]:
    """The blocks with line numbers as if printed in order, with an empty line between."""
    numbered, line = [], 1
    for block in blocks:
        last = line + block.text.count("\n")
        numbered.append(replace(block, first_line=line, last_line=last))
        line = last + 2
    return tuple(numbered)
