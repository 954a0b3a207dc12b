"""Reads chats that programs export: a section for each day, and an item for each message."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from hopsyncd.formats.blocks import Block, add_properties, make_skipped_block


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message. `time` is in ISO 8601. `line` and `last_line` are its first and last line."""

    time: str
    author: str
    text: str
    line: int
    last_line: int


def make_chat_blocks(messages: Sequence[ChatMessage], title: str = "") -> tuple[Block, ...]:
    """Return a heading for the chat and for each day, and an item for each message with text.

    The document has the authors of all messages, and the dates of the first and the last message.
    """
    spoken = [message for message in messages if message.text.strip()]
    if not spoken:
        return ()
    blocks = [Block("heading", title, 1, 1, level=1)] if title else []
    day = ""
    for message in spoken:
        if message.time[:10] != day:
            day = message.time[:10]
            blocks.append(Block("heading", day, message.line, message.line, level=2))
        clock = f" ({message.time[11:16]})" if len(message.time) > 11 else ""
        start = f"{message.author}{clock}: " if message.author else ""
        text = start + message.text.strip()
        blocks.append(Block("list_item", text, message.line, message.last_line))
    authors = [("author", message.author) for message in spoken]
    dates = [(name, message.time) for message in spoken for name in ("created", "modified")]
    return add_properties(blocks, [*authors, *dates])


_DAY_NAME = re.compile(r"\d{4}-\d\d-\d\d\Z")


def find_chat_title(path: str, blocks: Sequence[Block]) -> str:
    """Return the title of a chat that has none: the file name, or the name of the folder if the
    file is called `_chat` or after a day, as in Slack. Returns "" for other documents.

    >>> day = Block("heading", "2026-02-03", 1, 1, 2, properties=(("author", "Ann"),))
    >>> find_chat_title("slack/kitchen/2026-02-03.json", [day]), find_chat_title("a.txt", [])
    ('kitchen', '')
    """
    first = blocks[0] if blocks else None
    if not first or first.level != 2 or not first.properties or not _DAY_NAME.match(first.text):
        return ""
    file = PurePosixPath(path)
    return file.parent.name if file.stem == "_chat" or _DAY_NAME.match(file.stem) else file.stem


_DAY = r"(\d{1,4})[./-](\d{1,2})[./-](\d{2,4})\.?"
_CLOCK = r"(\d{1,2})[:.](\d\d)(?:[:.]\d\d)?(?:\s?([AaPp])\.?\s?[Mm]\.?)?"
_BETWEEN = r"(?:,| klo| kl\.)\s"
_WHATSAPP = re.compile(
    rf"[\u200e\ufeff]*(?:\[{_DAY}{_BETWEEN}{_CLOCK}\]\s|{_DAY}{_BETWEEN}{_CLOCK}\s[-\u2013]\s)(.*)"
)
_AUTHOR = re.compile(r"([^:\n]{1,80}):\s(.*)", re.DOTALL)
# WhatsApp writes such notes in the language of the phone. On iPhones, a mark precedes them.
_OMITTED = re.compile(
    r"\u200e.*|<[^<>\n]{3,60}>|.{1,200} \((?:file attached|Datei angeh\u00e4ngt)\)"
    r"|(?:This message was deleted|You deleted this message)\.?",
    re.DOTALL,
)


def read_whatsapp(text: str) -> tuple[Block, ...]:
    """Read a chat that WhatsApp exported. Returns () for any other text, such as a diary with lines
    without an author, or with times that do not exist.

    Notices of the program, and places where pictures were left out, are not messages.
    """
    if not _WHATSAPP.match(text.lstrip("\n")):
        return ()
    lines = text.split("\n")
    starts = [
        (number, found) for number, line in enumerate(lines) if (found := _WHATSAPP.match(line))
    ]
    order = _find_order([found for _, found in starts])
    skipped: Counter[str] = Counter()
    messages: list[ChatMessage] = []
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    for (number, found), end in zip(starts, ends, strict=True):
        message = _AUTHOR.match("\n".join([found[13], *lines[number + 1 : end]]).rstrip())
        if not message:
            skipped["notices"] += 1
        elif _OMITTED.fullmatch(message[2].strip(" \n")):
            skipped["attachments"] += 1
        else:
            author, words = (part.strip("\u200e\u202a\u202c~\u202f ") for part in message.groups())
            time = _format_time(found, order)
            messages.append(ChatMessage(time, author, words, number + 1, end))
    is_diary = 2 * skipped["notices"] > len(starts)
    if is_diary or not all(message.time for message in messages):
        return ()
    blocks = make_chat_blocks(messages)
    return (*blocks, make_skipped_block(skipped)) if blocks and skipped else blocks


def _get_parts(found: re.Match[str]) -> tuple[str, ...]:
    """Return the three numbers of the day, the hour, the minute, and "a" or "p"."""
    return found.group(*(range(1, 7) if found[1] else range(7, 13)))


def _find_order(starts: Sequence[re.Match[str]]) -> str:
    """Return "day" or "month" for the first number of the dates, unless it is the year.

    If no number is above 12, the month comes first in times with AM and PM.
    """
    parts = [_get_parts(start) for start in starts]
    if any(int(first) > 12 for first, *_ in parts if len(first) < 3):
        return "day"
    if any(int(second) > 12 for _, second, *_ in parts):
        return "month"
    return "month" if any(half for *_, half in parts) else "day"


def _format_time(found: re.Match[str], order: str) -> str:
    """Format the time of a message as ISO 8601. Returns "" for a time that does not exist."""
    first, second, third, hour, minute, half = _get_parts(found)
    if len(first) == 4:
        year, month, day = first, second, third
    else:
        day, month = (first, second) if order == "day" else (second, first)
        year = third if len(third) == 4 else f"20{third}"
    hours = int(hour) % 12 + (12 if half in ("p", "P") else 0) if half else int(hour)
    with suppress(ValueError):
        time = datetime(int(year), int(month), int(day), hours, int(minute))
        return time.isoformat(timespec="minutes")
    return ""


_SEARCHED_LINES = 200
_CLIPPING_END = re.compile(r"={8,}[ \t]*")
_CLIPPING = re.compile(r"- (?:Your |Ihre? |Mi |Tu |La |Votre )?(?P<kind>[^\W\d]+).{0,200}?\|\s*\S")
_PAGE = re.compile(r"\b(?:page|Seite|p\u00e1gina) (\d+)", re.IGNORECASE)
_BOOK = re.compile(r"(.*?)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*\Z")
_BOOKMARKS = frozenset(("bookmark", "lesezeichen", "marcador", "signet"))


def read_clippings(text: str) -> tuple[Block, ...]:
    """Read the highlights and notes of a Kindle (`My Clippings.txt`), each below its book.

    Bookmarks are left out, and so is a highlight that a later highlight extends. Returns () for any
    other text.
    """
    if not any(map(_CLIPPING_END.fullmatch, text.split("\n", _SEARCHED_LINES)[:_SEARCHED_LINES])):
        return ()
    lines = text.replace("\ufeff", "").split("\n")
    skipped: Counter[str] = Counter()
    books: dict[str, list[Block]] = {}
    for number, title, details, words in _split_clippings(lines):
        found = _CLIPPING.match(details)
        if not found:
            return ()
        if found["kind"].lower() in _BOOKMARKS or not words:
            skipped["bookmarks"] += 1
            continue
        page = _PAGE.search(details)
        kind = "Note" if found["kind"].lower() in ("note", "notiz", "nota") else ""
        start = ", ".join(filter(None, [kind, f"page {page[1]}" if page else ""])).capitalize()
        item = Block("list_item", f"{start}: {words}" if start else words, number, number + 3)
        clippings = books.setdefault(title, [])
        if clippings and item.text.startswith(clippings[-1].text):
            clippings.pop()
        clippings.append(item)
    if not books:
        return ()
    blocks: list[Block] = []
    authors: list[str] = []
    for title, clippings in books.items():
        if named := _BOOK.match(title):
            authors += map(str.strip, named[2].split(";"))
        first = clippings[0].first_line
        blocks += [Block("heading", title, first, first, level=2), *clippings]
    if skipped:
        blocks.append(make_skipped_block(skipped))
    return add_properties(blocks, (("author", author) for author in authors))


def _split_clippings(lines: Sequence[str]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the line number, the book, the details and the words of each clipping.

    In text that is not a clipping, such as text after the last rule, the details are empty.
    """
    start = 0
    for number, line in enumerate(lines):
        if _CLIPPING_END.fullmatch(line):
            clipping = [part.strip() for part in lines[start:number]]
            if len(clipping) > 1:
                words = "\n".join(clipping[2:]).strip()
                details = "" if "".join(clipping[2:3]) else clipping[1]  # an empty line follows
                yield start + 1, " ".join(clipping[0].split()), details, words
            start = number + 1
    if any(map(str.strip, lines[start:])):
        yield start + 1, "", "", ""
