"""Reads CSV rows, JSON values and Obsidian canvases, with their line numbers."""

import csv
import io
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, make_address_link, make_name_link
from hopsyncd.formats.json_exports import read_json_export
from hopsyncd.formats.markdown import read_markdown
from hopsyncd.formats.plain import read_plain
from hopsyncd.formats.sheets import SheetCell, SheetRow, read_sheet

_DELIMITERS = "\t;|,"  # if two delimiters fit, the one that is rarer in text and numbers
_SEPARATOR = re.compile(r"\A(?i:sep)=([,;\t|])[ \t]*(?:\n|\Z)")
_SNIFFED_CHARACTERS, _SNIFFED_ROWS = 32_000, 50
_BLANKS = re.compile(r"[\s,]*")
_MEMBER = re.compile(r"\s*:\s*")
_MAX_MEMBER_CHARACTERS = 1_000
_MAX_NAME_CHARACTERS = 100
# Numbers stay as they are written.
_decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


def read_csv(text: str) -> tuple[Block, ...]:
    """Read CSV. Each row becomes a block. If the file has column names, each value follows the name
    of its column.

    The delimiter is the comma, semicolon, tab or vertical bar with which most rows have the same
    number of values. A first line such as `sep=;`, as Excel writes it, sets the delimiter.
    """
    if not text.strip():
        return ()
    csv.field_size_limit(len(text) + 1)
    first_row = 0
    if found := _SEPARATOR.match(text):
        delimiter, first_row = found[1], 1
    else:
        delimiter = _guess_delimiter(text[:_SNIFFED_CHARACTERS])
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return tuple(read_sheet(islice(_number_rows(rows), first_row, None)))


def _guess_delimiter(text: str) -> str:
    """Return the delimiter with which the largest share of rows has the same number of values, at
    least two."""

    def evenness(delimiter: str) -> tuple[float, int]:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        sizes = Counter(len(row) for row in islice(rows, _SNIFFED_ROWS) if any(row))
        several = [(times, size) for size, times in sizes.items() if size > 1]
        times, size = max(several, default=(0, 0))
        return times / max(sizes.total(), 1), size

    return max(_DELIMITERS, key=evenness)


def _number_rows(rows: Any) -> Iterator[SheetRow]:
    """Yield each row that has text, with the line numbers of its beginning and end."""
    done = 0
    for row in rows:
        first, done = done + 1, rows.line_num
        while row and not row[-1].strip():
            row.pop()
        if row:
            yield SheetRow(first, done, tuple(map(SheetCell, row)))


def read_json(text: str) -> tuple[Block, ...]:
    """Read JSON or JSON lines. Each outermost member becomes a block, or several blocks if the
    member is long.

    A block has a line for each value, with the path of the value: "address.city: Oslo". The export
    of a known program is read as its notes or messages, and text that is not JSON as plain text.
    """
    with suppress(ValueError, RecursionError):  # lines of JSON are not JSON
        if exported := read_json_export(text):
            return exported
    try:
        return tuple(_Members(text).read_blocks())
    except (ValueError, RecursionError):
        return read_plain(text)


class _Members:
    """Reads the outermost values of a JSON text in one pass."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._breaks = [found.start() for found in re.finditer("\n", text)]

    def read_blocks(self) -> Iterator[Block]:
        self._skip(_BLANKS)
        while self._place < len(self._text):
            opening = self._text[self._place]
            yield from self._read_members("") if opening in "[{" else self._read_value("")
            self._skip(_BLANKS)

    def _read_members(self, path: str) -> Iterator[Block]:
        """Read the object or list that begins at the current position, named `path`."""
        named = self._text[self._place] == "{"
        self._place += 1
        self._skip(_BLANKS)
        while self._text[self._place : self._place + 1] not in ("]", "}"):
            name = ""
            if named:
                name, self._place = _decoder.raw_decode(self._text, self._place)
                self._skip(_MEMBER)
            yield from self._read_value(_join(path, name))
            self._skip(_BLANKS)
        self._place += 1

    def _read_value(self, path: str) -> Iterator[Block]:
        start = self._place
        value, end = _decoder.raw_decode(self._text, start)
        if isinstance(value, dict | list) and end - start > _MAX_MEMBER_CHARACTERS:
            yield from self._read_members(path)
            return
        self._place = end
        lines = "\n".join(_list_leaves(value, path))
        yield Block("code", lines, self._find_line(start), self._find_line(end - 1))

    def _find_line(self, place: int) -> int:
        return 1 + bisect_right(self._breaks, place - 1)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._place)
        self._place = found.end() if found else self._place


def _list_leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _list_leaves(member, _join(path, name))
    elif isinstance(value, list):
        for member in value:
            yield from _list_leaves(member, path)
    elif value not in (None, ""):
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        yield f"{path}: {text}" if path else text


def _join(path: str, name: object) -> str:
    short = str(name)[:_MAX_NAME_CHARACTERS]
    return f"{path}.{short}" if path and short else path or short


_MAX_CARD_CHARACTERS = 200_000
_NAME_CHARACTERS = 60


def read_canvas(text: str) -> tuple[Block, ...]:
    """Read a canvas of Obsidian (JSON Canvas 1.0); an empty canvas has no blocks.

    Cards are read as Markdown in file order; the line number of a block is the number of its card.
    The label of a group becomes a heading. A labelled arrow becomes a list item that names both of
    its cards. Raises DocumentUnreadable if the text is not a canvas.
    """
    if not text.strip():
        return ()
    try:
        canvas = json.loads(text)
        nodes, edges = canvas.get("nodes", []), canvas.get("edges", [])
        cards = [node for node in nodes if isinstance(node, dict)]
        arrows = [edge for edge in edges if isinstance(edge, dict)]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DocumentUnreadable(
            "the canvas",
            f"not a valid JSON Canvas file ({error})",
            "Save the canvas again in Obsidian",
        ) from error
    blocks = [block for number, card in enumerate(cards, 1) for block in _read_card(card, number)]
    return (*blocks, *_read_arrows(arrows, cards))


def _read_card(card: Mapping[str, Any], number: int) -> Iterator[Block]:
    kind = card.get("type")
    if kind == "text":
        for block in read_markdown(str(card.get("text", ""))[:_MAX_CARD_CHARACTERS]):
            yield replace(block, first_line=number, last_line=number)
    elif kind == "group" and card.get("label"):
        yield Block("heading", str(card["label"]), number, number, level=2)
    elif kind in ("file", "link"):
        target = str(card.get("file" if kind == "file" else "url", ""))
        link = make_name_link(target) if kind == "file" else make_address_link(target, target)
        if link:
            yield Block("paragraph", target, number, number, links=((0, link),))


def _read_arrows(arrows: list[dict[str, Any]], cards: list[dict[str, Any]]) -> Iterator[Block]:
    numbered = {
        card.get("id"): (number, _find_card_name(card)) for number, card in enumerate(cards, 1)
    }
    for arrow in arrows:
        start, end = numbered.get(arrow.get("fromNode")), numbered.get(arrow.get("toNode"))
        if start and end and arrow.get("label"):
            text = f"{start[1]} → {arrow['label']} → {end[1]}"
            yield Block("list_item", text, start[0], start[0])


def _find_card_name(card: Mapping[str, Any]) -> str:
    """Return the name of a card for the text of an arrow: the first line of the card's text or
    label, or else the address of its file or web page. Long names are cut."""
    name = next((str(card[key]) for key in ("text", "label", "file", "url") if card.get(key)), "")
    line = next(iter(name.strip().splitlines()), "").lstrip("#> ")
    return line[:_NAME_CHARACTERS]
