"""Justified lines of PDF pages are text, and rows of aligned cells stay tables."""

import pytest
from reportlab.pdfgen.canvas import Canvas

from tests.unit.test_extract_pdf import read, texts


def draw_justified(canvas: Canvas, left: float, lines: list[str]) -> None:
    """Draw the lines 220 points wide, from 700 points down, word by word; the last one, if it is a
    single word, at the left."""
    canvas.setFont("Helvetica", 10)
    for number, line in enumerate(lines):
        words, x = line.split(), left
        width = sum(canvas.stringWidth(word, "Helvetica", 10) for word in words)
        for word in words:
            canvas.drawString(x, 700 - 13 * number, word)
            x += canvas.stringWidth(word, "Helvetica", 10) + (220 - width) / max(len(words) - 1, 1)


def test_justified_lines_with_wide_spaces_are_no_table() -> None:
    lines = [
        "Expanding this course into everyday",
        "practice let the knowledge of 2019",
        "grow into processes that help",
        "to manage supplies and also",
        "the usage of tools in all",
        "teams.",
    ]
    assert texts(read(lambda canvas: draw_justified(canvas, 50, lines))) == ["\n".join(lines)]


@pytest.mark.parametrize("lowered", [0, 6.5])
def test_columns_of_justified_lines_with_wide_spaces_are_read_one_by_one(lowered: float) -> None:
    left = ["Metabarcoding found 96 taxa", "where the others had found only", "one."] * 3
    right = ["Restoration aims to raise the", "table of the fen and to bring back", "peat."] * 3

    def draw(canvas: Canvas) -> None:
        draw_justified(canvas, 50, left)
        canvas.translate(0, -lowered)
        draw_justified(canvas, 330, right)

    assert " ".join(texts(read(draw))).split() == " ".join([*left, *right]).split()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("North 10 20 30 40", "North 15 25 35 45"),
        ("Port Harbourmaster Berths Owner", "Alva Lee three Co"),
    ],
    ids=["numbers", "lines that end at different places"],
)
def test_cells_with_equal_spaces_between_them_are_a_table(first: str, second: str) -> None:
    def draw(canvas: Canvas) -> None:
        for y, row in ((700, first), (687, second)):
            x = 50.0
            for cell in row.split():
                canvas.drawString(x, y, cell)
                x += canvas.stringWidth(cell) + 20

    assert {block.kind for block in read(draw)} == {"table"}


def test_codes_of_one_width_in_each_column_are_a_table() -> None:
    rows = ["DE BER EDDB LFT-AA", "FR CDG LFPG LFT-AB", "IT FCO LIRF LFT-AC"]

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Courier", 10)
        for number, row in enumerate(rows):
            canvas.drawString(50, 700 - 13 * number, "   ".join(row.split()))

    assert {block.kind for block in read(draw)} == {"table"}


def test_justified_lines_with_wider_spaces_after_sentences_are_no_table() -> None:
    """As TeX sets them in narrow columns."""
    lines = [
        "The study site was a bog. We used wells",
        "and pipes there. All of them are new and",
        "rest on clay. The rain fell for ten days.",
        "Then it ended.",
    ]

    def draw(canvas: Canvas) -> None:
        for number, line in enumerate(lines):
            words = line.split()
            shares = [3.0 if word.endswith(".") else 1.0 for word in words[:-1]]
            widths = [canvas.stringWidth(word, "Helvetica", 10) for word in words]
            space = (215 - sum(widths)) / sum(shares) if number < len(lines) - 1 else 3
            x = 50.0
            canvas.setFont("Helvetica", 10)
            for word, width, share in zip(words, widths, [*shares, 0], strict=True):
                canvas.drawString(x, 700 - 13 * number, word)
                x += width + space * share

    assert texts(read(draw)) == ["\n".join(lines)]
