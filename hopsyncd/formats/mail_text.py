"""Separates the text of a message into the sender's own words, quotations and forwarded text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from html import unescape

from connectors.html_tokens import tokenize_html

_SAID = re.compile(r"@|\b\d{4}\b|\d{1,2}:\d{2}")
_SIGNATURE = re.compile(r"-- ?\Z")
_ORIGINAL = re.compile(
    r"(?:-{3,} ?(?:Original Message|Original-Nachricht|Ursprüngliche Nachricht|Message d'origine"
    r"|Mensaje original|Messaggio originale|Oorspronkelijk bericht) ?-{3,}|_{20,})\s*\Z",
    re.IGNORECASE,
)
_FORWARD_BEGINS = re.compile(
    r"-{3,} ?(?:Forwarded (?:message|by .{1,200})|Weitergeleitete Nachricht|Message transféré"
    r"|Mensaje reenviado|Messaggio inoltrato|Doorgestuurd bericht) ?-{3,}\s*\Z"
    r"|(?:Begin forwarded message|Anfang der weitergeleiteten (?:Nachricht|E-Mail)"
    r"|Début du message réexpédié|Inizio messaggio inoltrato):?\s*\Z",
    re.IGNORECASE,
)
_FORWARD_ENDS = re.compile(r"-{3,} ?End (?:of )?forwarded message ?-{3,}\s*\Z", re.IGNORECASE)
_FORWARD_SUBJECT = re.compile(r"\s*(?:fwd?|wg|tr|rv|i|enc|doorst)\s*:", re.IGNORECASE)
_FIELD_NAMES = {
    "from": "From von de da van",
    "date": "Date Sent Datum Gesendet Envoyé Fecha Enviado Data Inviato Verzonden",
    "to": "To An À Para A Aan",
    "cc": "Cc Kopie Copie",
    "subject": "Subject Betreff Objet Asunto Oggetto Onderwerp",
}
_ROLES = {name.lower(): role for role, names in _FIELD_NAMES.items() for name in names.split()}
_FIELD = re.compile(
    rf"[ \t*]*({'|'.join(sorted(_ROLES, key=len, reverse=True))})[ \t]*:[ \t*]*(.*)\Z",
    re.IGNORECASE,
)
_FIELD_BEGINS = re.compile(rf" (?=(?:{'|'.join(_ROLES)}): )", re.IGNORECASE)
_MAX_HEAD_CHARACTERS = 2_000
_MAX_FORWARDED = 50
_MAX_ANSWERED_LINES = 3
_MOST_COMPARED = 100  # lines of a quotation or signature to compare with known lines


@dataclass(slots=True)
class OwnText:
    """A part of a message's text, with header fields if the part is forwarded text.

    `fields` has "from", "to", "cc", "date" and "subject" if the forwarded message states them. It
    is empty for the sender's own text.
    """

    fields: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")


@dataclass(slots=True)
class Written:
    """The sender's own text, then forwarded text, and the number of removed quotations."""

    parts: list[OwnText]
    quotes: int = 0
    signatures: int = 0


class KnownLines:
    """The lines of earlier messages, used to recognize quotations of them."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()

    def add(self, text: str) -> None:
        self._hashes.update(map(_hash_line, _list_message_lines(text.split("\n"))))

    def knows(self, lines: Iterable[str]) -> bool:
        """Whether at least half of the lines are lines of earlier messages, even if a mail program
        wrapped them differently."""
        hashes = [_hash_line(line) for line in _list_message_lines(lines)]
        return 2 * sum(digest in self._hashes for digest in hashes) >= len(hashes)


def _list_message_lines(lines: Iterable[str]) -> Iterator[str]:
    bare = (line.lstrip("> \t").rstrip() for line in lines)
    return (line for line in bare if any(map(str.isalnum, line)))


def _hash_line(line: str) -> bytes:
    return blake2b(line.encode("utf-8", "replace"), digest_size=8).digest()


def separate_quotes(text: str, known: KnownLines | None, *, forwards: bool = False) -> Written:
    r"""Return the sender's own text and forwarded text, without quotations.

    A quotation is left out with the line that introduces it, because the quoted message contains
    its text. With `known`, only quotations of known lines and known signatures are left out. A
    message that consists only of quotations keeps them. Replies between quotations keep the quoted
    lines above them. If `forwards`, the text below "Original Message" counts as forwarded, not
    quoted.

    >>> separate_quotes("On 3 May 2026, Bob wrote:\n> Shall we?\n\nYes.", None).parts[0].text
    'Yes.'
    """
    written = Written([OwnText()])
    lines = text.split("\n")
    answered = _find_answered_lines(lines)
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith(">"):
            end = _end_of_quote(lines, index)
            _take_quote(written, lines[index:end], known, answered.get(index, ()))
            index = end
            continue
        begins = _FORWARD_BEGINS.match(line) or (forwards and _ORIGINAL.match(line))
        if begins and len(written.parts) < _MAX_FORWARDED:
            fields, after = _read_fields_below(lines, index + 1)
            if fields:
                written.parts.append(OwnText(fields))
                index = after
                continue
        elif _ORIGINAL.match(line) and _read_fields_below(lines, index + 1)[0]:
            if known is None or known.knows(lines[index : index + _MOST_COMPARED]):
                written.quotes += 1
                break
        elif _SIGNATURE.match(line):
            if known is not None and known.knows(lines[index : index + _MOST_COMPARED]):
                written.signatures += 1
                break
            line = ""  # the signature is a separate paragraph
        if not _FORWARD_ENDS.match(line):
            written.parts[-1].lines.append(line)
        index += 1
    if not any(part.text.strip() or part.fields for part in written.parts):
        return Written([OwnText({}, lines)])
    return written


def is_forward(subject: str) -> bool:
    """Whether a subject marks a message as forwarded.

    >>> is_forward("Fwd: the key"), is_forward("Re: the key")
    (True, False)
    """
    return _FORWARD_SUBJECT.match(subject) is not None


def _end_of_quote(lines: list[str], index: int) -> int:
    """Return the position after the quotation at `index`, which may contain blank lines."""
    end = index
    while end < len(lines) and (lines[end].startswith(">") or not lines[end].strip()):
        end += 1
    while end > index and not lines[end - 1].strip():
        end -= 1
    return end


def _find_answered_lines(lines: list[str]) -> dict[int, list[str]]:
    """Return the last lines of each quotation with a reply below it, by the quotation's position.

    The result is empty if only one quotation has a reply below it, because that reply answers the
    whole message.
    """
    answered: dict[int, list[str]] = {}
    index = 0
    while index < len(lines):
        if not lines[index].startswith(">"):
            index += 1
            continue
        begin, end = index, _end_of_quote(lines, index)
        index = end
        while index < len(lines) and not lines[index].strip():
            index += 1
        reply = lines[index] if index < len(lines) else ""
        if not reply or reply.startswith(">"):
            continue
        if reply.rstrip().endswith(":") or _SIGNATURE.match(reply) or _ORIGINAL.match(reply):
            continue
        paragraph: list[str] = []
        for line in reversed(lines[begin:end]):
            is_blank = not line.strip("> \t")
            if (is_blank and paragraph) or len(paragraph) == _MAX_ANSWERED_LINES:
                break
            paragraph += [] if is_blank else [line]
        answered[begin] = paragraph[::-1]
    return answered if len(answered) > 1 else {}


def _take_quote(
    written: Written, quote: list[str], known: KnownLines | None, answered: Sequence[str]
) -> None:
    """Count a quotation, drop the line that introduces it, and keep only its `answered` lines. A
    quotation that is not in `known` is kept whole and not counted."""
    lines = written.parts[-1].lines
    if known is not None and not known.knows(quote):
        lines.extend(quote)
        return
    _drop_introduction(lines)
    lines.extend(answered)
    written.quotes += 1


def _drop_introduction(lines: list[str]) -> None:
    """Drop the last paragraph if it introduces a quotation ("On Monday Ann wrote:")."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and end - begin < 3 and lines[begin - 1].strip():
        begin -= 1
    introduction = " ".join(lines[begin:end])
    if (
        introduction.rstrip().endswith(":")
        and _SAID.search(introduction)
        and len(introduction) < 300
    ):
        del lines[begin:]


def _read_fields_below(lines: list[str], index: int) -> tuple[dict[str, str], int]:
    """Return the header fields of a forwarded message at `index`, and the position of its text.

    There must be two or more fields, including the sender or the subject.
    """
    while index < len(lines) and not lines[index].strip():
        index += 1
    fields: dict[str, str] = {}
    role = ""
    while index < len(lines) and lines[index].strip() and len(fields) < 6:
        line = lines[index].strip()
        found = _FIELD.match(line)
        if found:
            role = _ROLES[found[1].lower()]
            fields[role] = found[2].rstrip()
        elif role and lines[index][0] in " \t":
            fields[role] += f" {line}"
        elif not re.match(r"[A-Z][\w-]{1,20}: ", line):
            break
        index += 1
    is_head = len(fields) > 1 and (fields.get("from") or fields.get("subject"))
    return (fields, index) if is_head else ({}, index)


def read_forwarded_fields(text: str) -> dict[str, str]:
    """Return the fields of a forwarded message if the text consists of its header lines, or else an
    empty dict."""
    if "\n" not in text and len(text) < _MAX_HEAD_CHARACTERS and _FIELD.match(text):
        text = _FIELD_BEGINS.sub("\n", text)  # the HTML reader turns line breaks into spaces
    lines = text.split("\n")
    first = 1 if _FORWARD_BEGINS.match(lines[0].strip()) else 0
    fields, end = _read_fields_below(lines, first)
    return fields if end == len(lines) and (first or len(fields) > 2) else {}


_HTML_QUOTE = re.compile(
    r"""<(?:div|blockquote)\b[^<>]{0,300}?(?:class=["']?(?:gmail_quote|yahoo_quoted|moz-cite-prefix)"""
    r"""|type=["']?cite|id=["']?(?:divRplyFwdMsg|appendonsend))""",
    re.IGNORECASE,
)
_FORWARDED = re.compile(
    r"forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado", re.I
)


def cut_quoted_html(html: str, *, forwards: bool = False) -> tuple[str, int]:
    """Cut the HTML where common mail programs mark a quotation. Also returns the number of cuts.

    The HTML is returned uncut if `forwards` is true, if the quotation is a forwarded message, or if
    there is no text above the quotation.
    """
    found = _HTML_QUOTE.search(html)
    if not found or forwards or _FORWARDED.search(html, found.start(), found.start() + 1000):
        return html, 0
    written = html[: found.start()]
    if re.sub(r"<[^<>]*>|&nbsp;|\s", "", _skip_head(written)):
        return written, 1
    return html, 0


def _skip_head(html: str) -> str:
    found = re.search(r"<body\b", html, re.IGNORECASE)
    return html[found.start() :] if found else html


_UNSEEN = frozenset(("style", "script", "head", "title"))
_TAG = re.compile(r"<[^<>]*>")
_HTML_WORD = re.compile(r"\w{2,}")
_STUB_COVERS = 0.6


def is_stub(plain: str, html: str) -> bool:
    """Whether the plain text lacks most of the text of the HTML part.

    >>> is_stub("This mail needs an HTML reader.", "<p>The regatta moved to Sunday.</p>")
    True
    >>> is_stub("The regatta moved.", "<p>The regatta moved.</p>")
    False
    """
    # Usually both are equal, so parsing is not needed.
    words, seen = _list_words(plain), _list_words(unescape(_TAG.sub(" ", _skip_head(html))))
    if len(seen & words) >= _STUB_COVERS * len(seen):
        return False
    shown = " ".join(
        unescape(token.value) for token in tokenize_html(html, _UNSEEN) if not token.tag
    )
    seen = _list_words(shown)
    return len(seen & words) < _STUB_COVERS * len(seen) and len(words) < 2 * len(seen)


def _list_words(text: str) -> set[str]:
    return set(_HTML_WORD.findall(text.lower()))
