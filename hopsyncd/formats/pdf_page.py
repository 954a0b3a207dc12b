"""Renders a page of a PDF as a picture, and finds a passage on it."""

import base64
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats import import_library
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.images import encode_color_png
from hopsyncd.formats.pdf import load_forms, open_pdf
from hopsyncd.formats.pdf_spans import Box, Span
from hopsyncd.formats.pdf_text import read_text, turn_box
from hopsyncd.formats.pdf_unicode_maps import repair_unicode_maps

_WIDTH_PX = 1100
_MOST_PIXELS = 2_500_000
_WORD = re.compile(r"[^\W_]+")
_SEQUENCE = 3  # consecutive words that are looked up in the passage
_SHARE = 0.6  # share of a span's words that must be in the passage
_MARGIN = 0.15  # the margin around a box, as a share of its height


def preview_page(data: bytes, number: int, wanted: str) -> Block:
    """Render the page `number` as a PNG in base64, and find the text `wanted` on that page.

    The block's properties are the size of the picture, the number of pages, and the boxes of the
    text: left, top, right and bottom in pixels. Pages are counted from 1. Raises DocumentUnreadable
    if there is no such page.
    """
    raw = import_library("pypdfium2").raw
    with open_pdf(repair_unicode_maps(data)) as document:
        pages = len(document)
        if not 1 <= number <= pages:
            raise DocumentUnreadable(
                "the document", f"the PDF has {pages} pages", f"Choose a page from 1 to {pages}"
            )
        load_forms(document, raw)
        with closing(document[number - 1]) as page:
            width, height = page.get_size()
            scale = min(_WIDTH_PX / max(width, 1.0), math.sqrt(_MOST_PIXELS / (width * height)))
            boxes = [*_find_boxes(page, raw, wanted, scale)]
            bitmap = page.render(scale=scale, rev_byteorder=True)
            pixels, stride = memoryview(bitmap.buffer), bitmap.stride
            across = bitmap.width * bitmap.n_channels
            rows = (bytes(pixels[row * stride :][:across]) for row in range(bitmap.height))
            png = encode_color_png(bitmap.width, bitmap.height, rows, bitmap.n_channels)
    properties = [
        ("size", f"{bitmap.width} {bitmap.height}"),
        ("pages", str(pages)),
        *(("box", " ".join(map(str, box))) for box in boxes),
    ]
    text = base64.b64encode(png).decode()
    return Block("picture", text, number, number, properties=tuple(properties))


def _find_boxes(
    page: Any, raw: Any, wanted: str, scale: float
) -> Iterable[tuple[int, int, int, int]]:
    """Yield the boxes of the passage `wanted` as (left, top, right, bottom), in pixels of the
    rendered page. `scale` is the number of pixels per point."""
    quarters = page.get_rotation() // 90
    with closing(page.get_textpage()) as text_page:
        text, upright_quarters = read_text(text_page, raw, quarters)
    left, _, _, top = turn_box(page.get_bbox(), quarters)
    lines = merge_lines(find_spans([*text.spans, *text.turned], wanted))
    for line in lines:
        margin = _MARGIN * (line[3] - line[1])
        with_margin = (line[0], line[1] - margin, line[2], line[3] + margin)
        box = turn_box(with_margin, quarters - upright_quarters)
        edges = (box[0] - left, top - box[3], box[2] - left, top - box[1])
        x0, y0, x1, y1 = (round(edge * scale) for edge in edges)
        yield x0, y0, x1, y1


def find_spans(spans: Sequence[Span], wanted: str) -> list[Span]:
    """Return the spans that contain words of the passage `wanted`, from top to bottom and left to
    right.

    Short spans occur in many places. They count only between longer spans of the passage, or if the
    passage has no longer spans.
    """
    words = _split_into_words(wanted)
    sequences = {
        tuple(words[start : start + _SEQUENCE]) for start in range(len(words) - _SEQUENCE + 1)
    }
    joined = f" {' '.join(words)} "
    long, short = list[Span](), list[Span]()
    for span in spans:
        span_words = _split_into_words(span.text)
        if len(span_words) > _SEQUENCE:
            covered = set[int]()
            for start in range(len(span_words) - _SEQUENCE + 1):
                if tuple(span_words[start : start + _SEQUENCE]) in sequences:
                    covered |= {*range(start, start + _SEQUENCE)}
            if len(covered) >= _SHARE * len(span_words):
                long.append(span)
        elif span_words and f" {' '.join(span_words)} " in joined:
            short.append(span)
    if long:
        bottom = min(span.bottom - 1.5 * (span.top - span.bottom) for span in long)
        top = max(span.top + 0.5 * (span.top - span.bottom) for span in long)
        short = [span for span in short if bottom <= span.bottom and span.top <= top]
    return sorted([*long, *short], key=lambda span: (-span.top, span.left))


def merge_lines(spans: Iterable[Span]) -> list[Box]:
    """Merge the boxes of neighbouring spans on one line."""
    boxes: list[Box] = []
    for span in spans:
        box = (span.left, span.bottom, span.right, span.top)
        height = box[3] - box[1]
        last = boxes[-1] if boxes else None
        if last and abs(last[1] - box[1]) < 0.5 * height and -height < box[0] - last[2] < height:
            boxes[-1] = (last[0], min(last[1], box[1]), box[2], max(last[3], box[3]))
        else:
            boxes.append(box)
    return boxes


def _split_into_words(text: str) -> list[str]:
    """Split text into words in lower case.

    >>> _split_into_words("The well-known “Reader”")
    ['the', 'well', 'known', 'reader']
    """
    return _WORD.findall(text.casefold())
