"""Defines blocks, the parts of a document that readers produce, and their links. The chunker groups
blocks into passages."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote

_MAX_CHARACTERS = 1000
_MARK = "\0"  # marks the start of a link; no text contains it
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """A link target as written in the document, and the visible text of the link."""

    target: str
    text: str


def make_address_link(address: str, shown: str) -> WrittenLink | None:
    """Make a link with the visible text `shown` from a Markdown or HTML address. Returns None if
    the address is empty, is longer than 1,000 characters, or has a scheme other than http(s), such
    as mailto: or data:.

    >>> make_address_link("../My%20Notes.md#a", "mine")
    WrittenLink(target='../My Notes.md#a', text='mine')
    >>> make_address_link("mailto:ann@example.org", "Ann") is None
    True
    """
    address = address.strip()
    if _SCHEME.match(address):
        return (
            _make_link(address, shown) if address.lower().startswith(("http:", "https:")) else None
        )
    return _make_link(unquote(address), shown)


def make_name_link(name: str, shown: str = "") -> WrittenLink | None:
    """Make a link to a document by its name. The visible text defaults to the name."""
    return _make_link(name, shown or name)


def _make_link(target: str, shown: str) -> WrittenLink | None:
    target = join_lines(target)
    is_sound = target and len(target) <= _MAX_CHARACTERS
    return WrittenLink(target, join_lines(shown)[:_MAX_CHARACTERS]) if is_sound else None


def join_lines(text: str) -> str:
    r"""Return the text in one line with single spaces. Characters that UTF-8 cannot encode become
    `?`.

    >>> join_lines("Ada \n Lovelace\udc80")
    'Ada Lovelace?'
    """
    return " ".join(text.encode("utf-8", "replace").decode().split())


Kind = Literal[
    "heading", "paragraph", "code", "table", "list_item", "figure", "note", "picture", "skipped"
]
Links = tuple[tuple[int, WrittenLink], ...]
"""The links in a block's text, each with its start offset, in ascending order."""

DISCARDED, RECORDS = "deleted notes and spam", "records of a program"
TEMPLATES = "templates"
"""The kinds under which a reader counts documents that their owner threw away, documents that a
program writes for itself, and templates of notes."""

_CHOSEN_DATES = {"created": min, "modified": max}
_NOTION_ID = re.compile(r" [0-9a-f]{32}(?:_all)?\Z")

# Every passage repeats the headings above it, so an endless heading must become a paragraph.
MAX_HEADING_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document's structure, in reading order.

    Lines are 1-based and inclusive, and refer to the file on disk. Formats without lines count
    pages, slides or other units instead (see formats/media_types.py). `text` keeps the file's line
    breaks, so that the line of each part is known. `level` is 1..6 for a heading and 0 for all
    other kinds. A heading with empty text closes the sections of its level without opening a new
    section.

    A `table` block is one row (see formats/table_text.py). A `figure` is the caption or the
    description of a picture. A `note` is a footnote or a comment, after the block that refers to
    it. A `skipped` block counts parts that a reader omits on purpose (see `make_skipped_block` and
    `count_skipped`). A `picture` block marks the place of a picture until text recognition replaces
    the block.

    `links` are the links in the text, as (offset, link) pairs. `names` are other names of the
    document that the block contains. `properties` are facts about the document, such as tags,
    authors and dates, as (name, value) pairs. `leads` are earlier texts without which the block is
    hard to understand, outermost first: the sentence that introduces its list, its parent items,
    the term that it explains. A passage that begins with the block repeats its leads.
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


def tidy_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Drop blocks that have neither text nor links, and turn overlong headings into paragraphs.

    Characters that UTF-8 cannot encode are replaced with `?`. JSON and some character sets can
    contain them.
    """
    return tuple(
        replace(block, kind="paragraph", level=0)
        if block.kind == "heading" and len(block.text) > MAX_HEADING_CHARACTERS
        else block
        for block in map(_make_storable, blocks)
        if block.kind in ("heading", "skipped") or block.text.strip() or block.links
    )


def make_skipped_block(counts: Mapping[str, int]) -> Block:
    """Make a block that counts the parts that a reader omitted on purpose, by kind."""
    properties = tuple((kind, str(count)) for kind, count in sorted(counts.items()) if count)
    return Block("skipped", "", 1, 1, properties=properties)


def count_skipped(blocks: Iterable[Block]) -> dict[str, int]:
    """Count the parts that readers omitted on purpose, by kind.

    >>> count_skipped([make_skipped_block({"navigation": n}) for n in (2, 1)])
    {'navigation': 3}
    """
    counts: dict[str, int] = {}
    for block in blocks:
        for kind, count in block.properties if block.kind == "skipped" else ():
            counts[kind] = counts.get(kind, 0) + int(count)
    return counts


def is_left_out(blocks: Iterable[Block]) -> bool:
    """Whether a reader left out the document as a whole, so that it need not have text."""
    return not {DISCARDED, RECORDS, TEMPLATES}.isdisjoint(count_skipped(blocks))


def add_properties(
    blocks: Sequence[Block], properties: Iterable[tuple[str, str]]
) -> tuple[Block, ...]:
    """Add the distinct properties of a document's parts to its first block, with only the first
    `created` and the last `modified` date. Properties without a value are left out.

    >>> notes = [("created", "2025-03-02"), ("tag", "boat"), ("created", "2025-01-09")]
    >>> add_properties([Block("heading", "Log", 1, 1)], notes)[0].properties
    (('tag', 'boat'), ('created', '2025-01-09'))
    """
    if not blocks:
        return ()
    given = [(name, text) for name, text in dict.fromkeys(properties) if text]
    others = [(name, text) for name, text in given if name not in _CHOSEN_DATES]
    dates = [
        (name, choose(texts))
        for name, choose in _CHOSEN_DATES.items()
        if (texts := [text for key, text in given if key == name])
    ]
    first = replace(blocks[0], properties=(*blocks[0].properties, *others, *dates))
    return (first, *blocks[1:])


def squeeze_spaces(text: str, links: Links) -> tuple[str, Links]:
    """Collapse white space in `text` to single spaces, and adjust the offsets of the links."""
    if not links:
        return " ".join(text.split()), ()
    ends = [0, *(offset for offset, _ in links), len(text)]
    marked = _MARK.join(text[start:end] for start, end in pairwise(ends))
    starts = accumulate(map(len, " ".join(marked.split()).split(_MARK)))
    moved = ((offset, link) for offset, (_, link) in zip(starts, links, strict=False))
    return " ".join(text.split()), tuple(moved)


def _make_storable(block: Block) -> Block:
    text = block.text.encode("utf-8", "replace").decode()
    return block if text == block.text else replace(block, text=text)


def with_title(
    blocks: tuple[Block, ...], title: str, line: int, *, is_certain: bool = False
) -> tuple[Block, ...]:
    """Put `title` first as the level-1 heading, unless the document has its own title.

    The document has its own title if its only level-1 heading comes first or consists of words of
    `title`. If `is_certain`, as in a book, the heading must consist of words of `title`. The first
    of several level-1 headings is the title if it comes first and consists of words of `title`. If
    the first heading of any level equals `title`, it moves to the top. If level-1 headings remain
    below the title, all headings below the title move down a level.
    """
    title = join_lines(title)
    if not title or not blocks:
        return blocks
    opening = next(
        (index for index, block in enumerate(blocks) if block.level and block.text), None
    )
    if opening is not None and _list_words(blocks[opening].text) == _list_words(title):
        heading = replace(blocks[opening], level=1)
        blocks = (heading, *blocks[:opening], *blocks[opening + 1 :])
    tops = [index for index, block in enumerate(blocks) if block.level == 1 and block.text]
    if not tops:
        below = (replace(block, level=2) if block.level == 1 else block for block in blocks)
        return (Block("heading", title, line, line, level=1), *below)
    first = tops[0]
    is_told = _list_words(blocks[first].text) <= _list_words(title)
    if len(tops) == 1 and (is_told or (not is_certain and _is_empty(blocks[:first]))):
        return blocks
    if is_told and _is_empty(blocks[:first]):
        return (*blocks[: first + 1], *lower_headings(blocks[first + 1 :]))
    return (Block("heading", title, line, line, level=1), *lower_headings(blocks))


def merge_tables(blocks: Iterable[Block], tables: Iterable[Sequence[Block]]) -> Iterator[Block]:
    """Insert tables, which were read separately from the other blocks, at their lines."""
    remaining = iter(tables)
    table = next(remaining, ())
    for block in blocks:
        # A note follows the block that refers to it, whatever its line.
        while block.kind != "note" and table and table[0].first_line < block.first_line:
            yield from table
            table = next(remaining, ())
        yield block
    yield from table
    for table in remaining:
        yield from table


def make_title_from_path(path: str, blocks: Iterable[Block]) -> str:
    """Return the file name without its suffix as the title of a document that has several headings
    of the highest level, and therefore no title. Returns "" for other documents.

    A heading "Usage" says little without a title above it. A file without headings gets no title,
    because names such as "notes" or "2024-05-07" say nothing. But the name of a table from Notion
    is always its title, without the id after the name.

    >>> chapters = [Block("heading", text, 1, 1, level=2) for text in ("Usage", "Limits")]
    >>> make_title_from_path("tools/Export.md", chapters)
    'Export'
    >>> make_title_from_path("Boats 152bb52ee2b5804da922efa8c3194444_all.csv", [])
    'Boats'
    """
    stem = PurePosixPath(path).stem
    name = _NOTION_ID.sub("", stem)
    if path.endswith(".csv"):
        return name if name != stem else ""
    levels = [block.level for block in blocks if block.level and block.text]
    if not levels or levels.count(min(levels)) < 2:
        return ""
    return name


def _list_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _is_empty(blocks: Iterable[Block]) -> bool:
    return not any(block.text.strip() for block in blocks)


def lower_headings(blocks: Iterable[Block], by: int = 1) -> Iterator[Block]:
    """Yield the blocks with their headings `by` levels deeper, down to level 6."""
    for block in blocks:
        yield replace(block, level=min(block.level + by, 6)) if block.level and by else block


def list_names(blocks: Iterable[Block], title: str | None) -> tuple[str, ...]:
    """Return the names of a document: the title that its source gave, the first level-1 heading,
    and the names in its blocks."""
    block_list = list(blocks)
    first = next((block.text for block in block_list if block.level == 1 and block.text), "")
    names = [title or "", first, *(name for block in block_list for name in block.names)]
    return tuple(dict.fromkeys(name for name in map(join_lines, names) if name))
