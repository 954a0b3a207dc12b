"""A page of a PDF as a picture: where a passage is marked, and what a broken page does."""

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from PIL import Image
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.pdf_page import find_spans, preview_page
from hopsyncd.formats.pdf_spans import Span
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess

LINES = (
    "The harbour was dredged by the engineer Tove Lindqvist in 1907.",
    "She had studied hydrography in Bergen for several years.",
    "Ships from Lisbon unload there whenever the tide allows it.",
)


def pdf(draw: Callable[[Canvas], None], pages: int = 1, rotation: int = 0) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(600, 800))
    for _ in range(pages):
        if rotation:
            canvas.setPageRotation(rotation)
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def draw_lines(canvas: Canvas) -> None:
    for index, line in enumerate(LINES):
        canvas.drawString(60, 560 - 20 * index, line)


def boxes_of(block: Block) -> list[tuple[int, ...]]:
    return [tuple(map(int, box.split())) for name, box in block.properties if name == "box"]


def picture_of(block: Block) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(block.text))).convert("L")


def darkness(picture: Image.Image, box: tuple[int, ...]) -> int:
    """How many dark pixels there are in a box."""
    part = picture.crop((box[0], box[1], box[2], box[3]))
    return sum(part.histogram()[:128])


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_the_boxes_lie_on_the_lines_of_the_passage_on_pages_turned_any_way(rotation: int) -> None:
    wanted = pdf(draw_lines, rotation=rotation)
    block = preview_page(wanted, 1, " ".join(LINES[:2]))
    picture, boxes = picture_of(block), boxes_of(block)
    assert dict(block.properties)["size"] == f"{picture.width} {picture.height}"
    assert len(boxes) == 2
    whole = darkness(picture, (0, 0, picture.width, picture.height))
    marked = [darkness(picture, box) for box in boxes]
    # All that is drawn is three lines of about the same length: two of them are marked.
    assert min(marked) > 0.2 * whole
    assert 0.5 * whole < sum(marked) < 0.8 * whole
    points = max(stringWidth(line, "Helvetica", 12) for line in LINES[:2])
    longest = max(max(box[2] - box[0], box[3] - box[1]) for box in boxes)
    assert longest < 1.1 * points * max(picture.size) / 800


def test_the_boxes_move_with_a_page_that_is_cut_to_a_part() -> None:
    def draw(canvas: Canvas) -> None:
        draw_lines(canvas)
        canvas.setCropBox((40, 460, 500, 640))

    block = preview_page(pdf(draw), 1, LINES[0])
    picture, (box,) = picture_of(block), boxes_of(block)
    whole = darkness(picture, (0, 0, picture.width, picture.height))
    assert 0.25 * whole < darkness(picture, box) < 0.5 * whole


def test_words_that_stand_elsewhere_too_are_marked_only_in_the_passage() -> None:
    def span(text: str, bottom: float) -> Span:
        return Span(text, 10, bottom, 200, bottom + 10)

    spans = [
        span("Lisbon", 700),
        span("The harbour was dredged by the engineer", 500),
        span("in Lisbon", 488),
        span("Contents and other matters of the book", 300),
        span("Lisbon", 100),
    ]
    found = find_spans(spans, "The harbour was dredged by the engineer in Lisbon.")
    assert [one.bottom for one in found] == [500, 488]
    assert [span.bottom for span in find_spans(spans[:1], "Lisbon: 7 ships")] == [700]
    assert find_spans(spans, "Nothing of this") == []


def test_a_missing_page_is_refused() -> None:
    with pytest.raises(DocumentUnreadable, match="2 pages"):
        preview_page(pdf(draw_lines, pages=2), 3, "x")


@pytest.fixture
def process() -> Iterator[ExtractionProcess]:
    with closing(ExtractionProcess()) as made:
        yield made


def test_the_confined_process_draws_a_page(process: ExtractionProcess) -> None:
    block = process.preview_page(pdf(draw_lines, pages=2), 2, f"{LINES[0]}; and; more")
    assert picture_of(block).width == 1100
    assert dict(block.properties)["pages"] == "2" and len(boxes_of(block)) == 1


def test_a_page_of_any_size_has_a_bounded_picture(process: ExtractionProcess) -> None:
    for size in ((14_400, 14_400), (3, 14_400), (14_400, 3)):
        buffer = io.BytesIO()
        canvas = Canvas(buffer, pagesize=size)
        canvas.drawString(1, 1, "wide")
        canvas.save()
        picture = picture_of(process.preview_page(buffer.getvalue(), 1, "wide"))
        assert 0 < picture.width * picture.height < 3_000_000


def test_a_broken_file_is_an_error_and_not_a_dead_daemon(process: ExtractionProcess) -> None:
    for data in (b"%PDF-1.4 broken", b"", b"\0" * 100):
        with pytest.raises(DocumentUnreadable):
            process.preview_page(data, 1, "x")
    assert process.preview_page(pdf(draw_lines), 1, "x").kind == "picture"
