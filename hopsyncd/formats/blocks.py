"""The blocks of a document and the links in them: what a reader yields and the chunker consumes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote

_MAX_CHARACTERS = 1000
_MARK = "\0"  # where a link begins; no text holds it
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """The target of a link as written, and the text that a reader sees in its place."""

    target: str
    text: str


def link_to_address(address: str, shown: str) -> WrittenLink | None:
    """A link of Markdown or HTML; None where it leads to no document (mail, scripts, data).

    >>> link_to_address("../My%20Notes.md#a", "mine")
    WrittenLink(target='../My Notes.md#a', text='mine')
    >>> link_to_address("mailto:ann@example.org", "Ann") is None
    True
    """
    address = address.strip()
    if _SCHEME.match(address):
        return _link(address, shown) if address.lower().startswith(("http:", "https:")) else None
    return _link(unquote(address), shown)


def link_to_name(name: str, shown: str = "") -> WrittenLink | None:
    """A link by the name of a document; the name is shown unless another text is given."""
    return _link(name, shown or name)


def _link(target: str, shown: str) -> WrittenLink | None:
    target = in_one_line(target)
    is_sound = target and len(target) <= _MAX_CHARACTERS
    return WrittenLink(target, in_one_line(shown)[:_MAX_CHARACTERS]) if is_sound else None


def in_one_line(text: str) -> str:
    r"""The text with single spaces, and without what UTF-8 cannot hold.

    >>> in_one_line("Ada \n Lovelace\udc80")
    'Ada Lovelace?'
    """
    return " ".join(text.encode("utf-8", "replace").decode().split())


Kind = Literal[
    "heading", "paragraph", "code", "table", "list_item", "figure", "note", "picture", "skipped"
]
Links = tuple[tuple[int, WrittenLink], ...]
"""Links of a text, each with the offset where it begins, in ascending order."""

# Every passage repeats the headings above it, so an endless heading must become a paragraph.
MAX_HEADING_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document's structure, in reading order.

    Lines are 1-based and inclusive, in the file as it is on disk; in documents without lines they
    number pages, slides and so on (see formats/media_types.py). `text` keeps the line breaks of
    the file, so that every part of it has a line. `level` is 1..6 for a heading and 0 for others.
    A heading with empty text closes the sections of its level without opening one.

    A `table` block is one row (see formats/tables.py). A `figure` has the caption or the
    description of a picture. A `note` is a footnote or a comment, after the block that refers to
    it. `skipped` says what a reader left out on purpose: `skipped_block` makes it, `skipped_of`
    reads it. A `picture` holds the place of a picture until its text is read; no reader returns
    one in the end.

    `links` are the links in the text. `names` are names that the block gives the document,
    `properties` what else it says about it: tags, authors, dates and so on, as (name, value).
    `leads` are texts above it without which it cannot be understood, outermost first: the
    sentence that introduces its list, the items it is nested in, the term that it explains. They
    are repeated in a passage that begins with the block.
    """

    kind: Kind
    text: str
    first_line: int
    last_line: int
    level: int = 0
    links: Links = ()
    names: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


def tidy(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Drop blocks without text and links, and turn over-long headings into paragraphs.

    A `?` replaces what UTF-8 cannot hold; JSON and some charsets can spell it.
    """
    return tuple(
        replace(block, kind="paragraph", level=0)
        if block.kind == "heading" and len(block.text) > MAX_HEADING_CHARACTERS
        else block
        for block in map(_storable, blocks)
        if block.kind in ("heading", "skipped") or block.text.strip() or block.links
    )


def skipped_block(counts: Mapping[str, int]) -> Block:
    """The record of what a reader left out on purpose: how many of each kind."""
    properties = tuple((kind, str(count)) for kind, count in sorted(counts.items()) if count)
    return Block("skipped", "", 1, 1, properties=properties)


def skipped_of(blocks: Iterable[Block]) -> dict[str, int]:
    """How many parts of each kind the readers left out on purpose.

    >>> skipped_of([skipped_block({"navigation": 2}), skipped_block({"navigation": 1})])
    {'navigation': 3}
    """
    counts: dict[str, int] = {}
    for block in blocks:
        for kind, count in block.properties if block.kind == "skipped" else ():
            counts[kind] = counts.get(kind, 0) + int(count)
    return counts


def squeeze(text: str, links: Links) -> tuple[str, Links]:
    """A text in one line with single spaces, its links at their places in it."""
    ends = [0, *(at for at, _ in links), len(text)]
    marked = _MARK.join(text[start:end] for start, end in pairwise(ends))
    starts = accumulate(map(len, " ".join(marked.split()).split(_MARK)))
    moved = ((at, link) for at, (_, link) in zip(starts, links, strict=False))
    return " ".join(text.split()), tuple(moved)


def _storable(block: Block) -> Block:
    text = block.text.encode("utf-8", "replace").decode()
    return block if text == block.text else replace(block, text=text)


def with_title(
    blocks: tuple[Block, ...], title: str, line: int, *, is_certain: bool = False
) -> tuple[Block, ...]:
    """Put `title` first as the level-1 heading, unless the document has one of its own.

    If the title `is_certain`, as in a book, only a heading that has all of its words is its own.

    Its own is the only level-1 heading, if nothing precedes it, or a first heading of any level
    that equals the title: that comes first, also where text precedes it. All other level-1
    headings become chapters below the title.
    """
    title = in_one_line(title)
    if not title or not blocks:
        return blocks
    opening = next((at for at, block in enumerate(blocks) if block.level and block.text), None)
    if opening is not None and _words(blocks[opening].text) == _words(title):
        own = replace(blocks[opening], level=1)
        blocks = (own, *blocks[:opening], *blocks[opening + 1 :])
    tops = [at for at, block in enumerate(blocks) if block.level == 1 and block.text]
    if not tops:
        return (Block("heading", title, line, line, level=1), *blocks)
    first = tops[0]
    is_told = _words(blocks[first].text) <= _words(title)
    if len(tops) == 1 and (is_told or (not is_certain and _is_empty(blocks[:first]))):
        return blocks
    if is_told and _is_empty(blocks[:first]):
        return (*blocks[: first + 1], *lower_headings(blocks[first + 1 :]))
    return (Block("heading", title, line, line, level=1), *lower_headings(blocks))


def in_line_order(blocks: Iterable[Block], tables: Iterable[Sequence[Block]]) -> Iterator[Block]:
    """The blocks of a document, with its tables, which were read apart, at their places."""
    remaining = iter(tables)
    table = next(remaining, ())
    for block in blocks:
        # A note stands after the block that refers to it, whatever its line.
        while block.kind != "note" and table and table[0].first_line < block.first_line:
            yield from table
            table = next(remaining, ())
        yield block
    yield from table
    for table in remaining:
        yield from table


def title_from_path(path: str, blocks: Iterable[Block]) -> str:
    """The file's name without its ending as a title, if a document has chapters but no title.

    A chapter "Usage" says little without a title above it. A file without headings gets none,
    because many such names say nothing: "notes" or "2024-05-07".

    >>> chapters = [Block("heading", text, 1, 1, level=2) for text in ("Usage", "Limits")]
    >>> title_from_path("tools/Export.md", chapters)
    'Export'
    """
    levels = [block.level for block in blocks if block.level and block.text]
    if not levels or levels.count(min(levels)) < 2:
        return ""
    return PurePosixPath(path).stem


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _is_empty(blocks: Iterable[Block]) -> bool:
    return not any(block.text.strip() for block in blocks)


def lower_headings(blocks: Iterable[Block], by: int = 1) -> Iterator[Block]:
    """Yield the blocks, with their headings `by` levels deeper; 6 is the deepest level."""
    for block in blocks:
        yield replace(block, level=min(block.level + by, 6)) if block.level and by else block


def names_of(blocks: Iterable[Block], title: str | None) -> tuple[str, ...]:
    """The names of a document: its source's title, its first level-1 heading, its own names."""
    said = list(blocks)
    first = next((block.text for block in said if block.level == 1 and block.text), "")
    names = [title or "", first, *(name for block in said for name in block.names)]
    return tuple(dict.fromkeys(name for name in map(in_one_line, names) if name))
