"""Plain text: paragraphs between blank lines."""

import re
from collections.abc import Iterator

from hopsyncd.formats.blocks import Block

_LAID_OUT = re.compile(r"^\s|[,;{}\[\]|]$|\t")


def plain_blocks(text: str) -> tuple[Block, ...]:
    """Yield each run of lines between blank lines as one block.

    A run whose lines are laid out (indented, tabbed, ending in brackets or separators: JSON,
    YAML, tables) is `code`, so that its line breaks stay; any other is a `paragraph`.
    """
    return tuple(
        Block(
            "code" if _is_laid_out(lines) else "paragraph",
            "\n".join(lines),
            first,
            first + len(lines) - 1,
        )
        for first, lines in paragraphs(text.split("\n"))
    )


def paragraphs(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (1-based number of its first line, its lines) for each run of non-blank lines."""
    start: int | None = None
    for number, line in enumerate([*lines, ""]):
        if line and not line.isspace():
            start = number if start is None else start
        elif start is not None:
            yield start + 1, lines[start:number]
            start = None


def _is_laid_out(lines: list[str]) -> bool:
    return len(lines) > 1 and 2 * sum(bool(_LAID_OUT.search(line)) for line in lines) > len(lines)
