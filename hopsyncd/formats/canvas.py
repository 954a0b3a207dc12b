"""Canvases of Obsidian (JSON Canvas 1.0): cards of text, embedded notes and pages, and arrows.

Cards are read as Markdown in the order of the file; the number of the card is the line. The label
of a group is a heading. An arrow with a label becomes a sentence about the cards it joins.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, link_to_address, link_to_name
from hopsyncd.formats.markdown import markdown_blocks

_MAX_CARD_CHARACTERS = 200_000
_NAME_CHARACTERS = 60


def canvas_blocks(text: str) -> tuple[Block, ...]:
    """Read a canvas; an empty one has no blocks. Raises DocumentUnreadable for other JSON."""
    if not text.strip():
        return ()
    try:
        canvas = json.loads(text)
        nodes, edges = canvas.get("nodes", []), canvas.get("edges", [])
        cards = [one for one in nodes if isinstance(one, dict)]
        arrows = [one for one in edges if isinstance(one, dict)]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DocumentUnreadable(
            "the canvas", f"it is not JSON Canvas ({error})", "Save it again in its own program"
        ) from error
    blocks = [block for number, one in enumerate(cards, 1) for block in _card(one, number)]
    return (*blocks, *_arrows(arrows, cards))


def _card(card: Mapping[str, Any], number: int) -> Iterator[Block]:
    kind = card.get("type")
    if kind == "text":
        for block in markdown_blocks(str(card.get("text", ""))[:_MAX_CARD_CHARACTERS]):
            yield replace(block, first_line=number, last_line=number)
    elif kind == "group" and card.get("label"):
        yield Block("heading", str(card["label"]), number, number, level=2)
    elif kind in ("file", "link"):
        target = str(card.get("file" if kind == "file" else "url", ""))
        link = link_to_name(target) if kind == "file" else link_to_address(target, target)
        if link:
            yield Block("paragraph", target, number, number, links=((0, link),))


def _arrows(arrows: list[dict[str, Any]], cards: list[dict[str, Any]]) -> Iterator[Block]:
    numbered = {card.get("id"): (number, _name(card)) for number, card in enumerate(cards, 1)}
    for arrow in arrows:
        start, end = numbered.get(arrow.get("fromNode")), numbered.get(arrow.get("toNode"))
        if start and end and arrow.get("label"):
            text = f"{start[1]} → {arrow['label']} → {end[1]}"
            yield Block("list_item", text, start[0], start[0])


def _name(card: Mapping[str, Any]) -> str:
    """The name of a card in the sentence of an arrow: its first line, or what it embeds."""
    said = next((str(card[key]) for key in ("text", "label", "file", "url") if card.get(key)), "")
    line = next(iter(said.strip().splitlines()), "").lstrip("#> ")
    return line[:_NAME_CHARACTERS]
