"""Canvases of Obsidian."""

import json

import pytest

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.media_types import CANVAS
from hopsyncd.formats.readers import extract

CARDS = {
    "nodes": [
        {"id": "a", "type": "text", "text": "# Mill\n\nThe mill stands in #garden by [[Ada]]."},
        {"id": "b", "type": "file", "file": "people/Ada.md"},
        {"id": "c", "type": "link", "url": "https://example.org/mill"},
        {"id": "d", "type": "group", "label": "Owners"},
    ],
    "edges": [
        {"fromNode": "a", "toNode": "b", "label": "was built by"},
        {"fromNode": "a", "toNode": "c"},
        {"fromNode": "a", "toNode": "gone", "label": "x"},
    ],
}


def test_cards_groups_embeds_and_arrows_are_read() -> None:
    found = extract(json.dumps(CARDS).encode(), CANVAS)
    assert [(block.kind, block.text, block.first_line) for block in found] == [
        ("heading", "Mill", 1),
        ("paragraph", "The mill stands in #garden by Ada.", 1),
        ("paragraph", "people/Ada.md", 2),
        ("paragraph", "https://example.org/mill", 3),
        ("heading", "Owners", 4),
        ("list_item", "Mill → was built by → people/Ada.md", 1),
    ]
    assert [link.target for one in found for _, link in one.links] == [
        "garden", "Ada", "people/Ada.md", "https://example.org/mill",
    ]  # fmt: skip
    assert found[0].properties == (("tag", "garden"),)


def test_an_empty_canvas_has_no_blocks_and_other_json_is_refused() -> None:
    assert extract(b"", CANVAS) == extract(b"{}", CANVAS) == ()
    for wrong in (b"[1]", b'{"nodes": 3}', b"cards"):
        with pytest.raises(DocumentUnreadable, match="JSON Canvas"):
            extract(wrong, CANVAS)
