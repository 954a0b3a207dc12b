"""PDF: the text of its pages, with the headings that their type size tells."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.text.blocks import Block
from hopsyncd.text.location import PDF

_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_NOT_ALNUM = re.compile(r"[\W_]+")
_HYPHEN = re.compile(r"(?<=[a-zß-ÿ])[-\u00ad]\n(?=[a-zß-ÿ])")
_ENDS = (".", "!", "?", ":", ".”", '."', ".)", "。")

_SHORT = 0.6  # of the page's longest line: nothing was left to wrap
_SHORT_AT_END = 0.9  # the same, of a line that ends a sentence


def pdf_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a PDF; the lines of its blocks are page numbers.

    Table cells stand as the words of their row. Raises DocumentUnreadable where there is no text.
    """
    from kreuzberg import ConcurrencyConfig, ExtractionConfig, PageConfig, extract_bytes_sync

    config = ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        output_format="markdown",
        pages=PageConfig(extract_pages=True),
        concurrency=ConcurrencyConfig(max_threads=1),
    )
    result = extract_bytes_sync(data, PDF, config)
    pages = [(page["page_number"], page["content"]) for page in result.pages or ()]
    # Its Markdown has the headings, but takes some prose for lists and tables: only they are used.
    levels = {_key(found[2]): len(found[1]) for found in _HEADING.finditer(result.content)}
    left = Counter(_key(found[2]) for found in _HEADING.finditer(result.content))
    blocks = [block for number, text in pages for block in _page(number, text, levels, left)]
    if pages and not blocks:
        raise DocumentUnreadable(
            "the document",
            "its pages have no text: they may be pictures of text",
            "Have a program for text recognition (OCR) add the text, or leave it out",
        )
    return tuple(blocks)


def _page(number: int, text: str, levels: dict[str, int], left: Counter[str]) -> Iterator[Block]:
    """Read a page; each heading is taken once, as a running head may repeat it."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    longest = max(map(len, lines), default=0)
    paragraph: list[str] = []
    for line, after in pairwise([*lines, ""]):
        key = _key(line)
        is_heading = bool(key) and left[key] > 0
        if is_heading or not line.strip():
            yield from _paragraph(number, paragraph)
            paragraph = []
        if is_heading:
            left[key] -= 1
            yield Block("heading", " ".join(line.split()), number, number, levels[key])
        elif line.strip():
            paragraph.append(line)
            if _ends_paragraph(line, after, longest):
                yield from _paragraph(number, paragraph)
                paragraph = []
    yield from _paragraph(number, paragraph)


def _ends_paragraph(line: str, after: str, longest: int) -> bool:
    share = len(line) / longest
    return not after.strip() or share < (_SHORT_AT_END if line.endswith(_ENDS) else _SHORT)


def _paragraph(number: int, lines: list[str]) -> Iterator[Block]:
    if lines:
        yield Block("paragraph", _HYPHEN.sub("", "\n".join(lines)), number, number)


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()
