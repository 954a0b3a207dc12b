"""Documents of word processors: DOCX, ODT and RTF."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from hopsyncd.text.archive import opened
from hopsyncd.text.blocks import Block, Kind
from hopsyncd.text.location import DOCX, ODT, RTF

_KINDS: dict[str, Kind] = {"code": "code", "list_item": "list_item"}
_FURNITURE = ("header", "footer")


def _word_blocks(media_type: str, data: bytes) -> tuple[Block, ...]:
    """Read a document; the lines of its blocks count paragraphs, headings and table rows alike."""
    from kreuzberg import ConcurrencyConfig, ExtractionConfig, extract_bytes_sync

    if media_type != RTF:
        opened(data)  # refuses what unpacks to too much
    config = ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        include_document_structure=True,
        concurrency=ConcurrencyConfig(max_threads=1),
    )
    document = extract_bytes_sync(data, media_type, config).document
    blocks: list[Block] = []
    for node in document["nodes"] if document else ():
        if node.get("content_layer") not in _FURNITURE:
            blocks += _node(node["content"], len(blocks) + 1)
    return tuple(blocks)


docx_blocks = partial(_word_blocks, DOCX)
odt_blocks = partial(_word_blocks, ODT)
rtf_blocks = partial(_word_blocks, RTF)


def _node(content: Mapping[str, Any], number: int) -> Iterator[Block]:
    kind, text = content["node_type"], content.get("text") or ""
    if kind == "table":
        yield from _rows(content["grid"], number)
    elif kind in ("heading", "title") and text.strip():
        level = min(content.get("level") or 1, 6)
        yield Block("heading", " ".join(text.split()), number, number, level)
    elif text.strip():
        yield Block(_KINDS.get(kind, "paragraph"), text, number, number)


def _rows(grid: Mapping[str, Any], number: int) -> Iterator[Block]:
    rows: dict[int, list[str]] = {}
    for cell in grid["cells"]:
        text = " ".join(cell["content"].split())
        if text:
            rows.setdefault(cell["row"], []).append(text)
    for place, (_, cells) in enumerate(sorted(rows.items()), number):
        yield Block("table", " | ".join(cells), place, place)
