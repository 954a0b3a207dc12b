"""Tables and columns of PDF pages: what belongs together stays together."""

import pytest
from reportlab.pdfgen.canvas import Canvas

from tests.unit.test_extract_pdf import read, texts


def test_dots_lead_from_a_label_to_its_value() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 10)
        canvas.drawString(50, 700, "Notices " + ". " * 40 + "vii")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(50, 686, "Lemon cake " + "." * 60 + " $3.50")
        canvas.drawString(50, 672, "Chapter 2. Roles and separation of duties " + ". " * 20 + " 13")
        canvas.drawString(50, 640, "He paused . . . . . and then went on to tell of the year 1987")

    assert texts(read(draw)) == [
        "Notices | vii",
        "Lemon cake | $3.50",
        "Chapter 2. Roles and separation of duties | 13",
        "He paused . . . . . and then went on to tell of the year 1987",
    ]


def test_a_single_line_with_dots_in_large_type_is_a_row_and_no_heading() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        for at in range(6):
            canvas.drawString(50, 600 - 14 * at, "the body of the text is set in small type here")
        canvas.setFont("Helvetica", 16)
        canvas.drawString(50, 700, "1 Introduction " + ". " * 20 + "1")
        canvas.drawString(50, 660, "2 Structures " + ". " * 20 + "2")

    assert [(block.kind, block.text) for block in read(draw)][:2] == [
        ("table", "1 Introduction | 1"),
        ("table", "2 Structures | 2"),
    ]


def test_marks_that_a_file_writes_as_a_word_stand_in_their_columns() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.grid([60, 300, 340, 380, 420], [560, 580, 600, 620, 700])
        canvas.drawString(66, 690, "Action")
        for at, name in enumerate(("SECADM", "JOBCTL", "No rights")):
            canvas.saveState()
            canvas.translate(324 + 40 * at, 626)
            canvas.rotate(90)
            canvas.drawString(0, 0, name)
            canvas.restoreState()
        for at, (action, marks) in enumerate(
            (("Start a trace", "X X"), ("Change the plan", "XX"), ("Read the log", "XXX"))
        ):
            canvas.drawString(66, 606 - 20 * at, action)
            # A wide spacing between the letters, and no space, puts them into their columns.
            text = canvas.beginText(316, 606 - 20 * at)
            text.setCharSpace(34)
            text.textOut(marks.replace(" ", ""))
            text.setCharSpace(0)
            canvas.drawText(text)

    assert texts(read(draw)) == [
        "Action | SECADM | JOBCTL | No rights",
        "Start a trace | X | X",
        "Change the plan | X | X",
        "Read the log | X | X | X",
    ]


@pytest.mark.parametrize("edges", [[40, 300], [20, 40, 560, 580]])
def test_a_narrow_column_beside_the_text_is_read_by_itself(edges: list[int]) -> None:
    aside = ("Implement roles", "and separation", "of duties", "Leverage row", "permissions")
    told = "the publication tells of the function and of its advantages"

    def draw(canvas: Canvas) -> None:
        canvas.grid(edges, [100, 300, 500, 720])
        canvas.setFont("Helvetica", 10)
        for at, line in enumerate(aside):
            canvas.drawString(50, 699 - 14 * at, line)
        for at in range(9):
            canvas.drawString(190, 700 - 12 * at, f"{at} {told}")

    read_text = " ".join(texts(read(draw))).replace("\n", " ")
    assert " ".join(aside) in read_text
    assert f"0 {told} 1 {told}" in read_text


def test_the_lines_of_three_narrow_columns_make_paragraphs() -> None:
    line = "words of a narrow column"

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 10)
        canvas.drawString(50, 740, "A line across the page " + "that is as long as all of it " * 3)
        canvas.setFont("Helvetica", 9)
        for column in range(3):
            for at in range(12):
                canvas.drawString(50 + 180 * column, 700 - 12 * at, f"{line} {column}")
            canvas.drawString(50 + 180 * column, 700 - 12 * 12, "end.")

    said = ["\n".join([*[f"{line} {at}"] * 12, "end."]) for at in range(3)]
    assert texts(read(draw))[1:] == said


def test_names_above_numbers_are_headers_and_a_note_stands_with_its_row() -> None:
    rows = (("Ln", "Film", "Days", "Total"), ("1", "Winter", "12", "$3,000"))

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        for at, row in enumerate((*rows, (), ("2", "Spring", "24", "$3,600"))):
            for column, text in enumerate(row):
                canvas.drawString(50 + 90 * column, 700 - 14 * at, text)
        canvas.drawString(140, 672, "(98 min); at the seaside cinema of the town")
        for at, row in enumerate((("Owner", "Anna"), ("Make", "Saab"), ("Year", "1987"))):
            for column, text in enumerate(row):
                canvas.drawString(50 + 90 * column, 600 - 14 * at, text)

    assert texts(read(draw)) == [
        "Ln: 1 | Film: Winter (98 min); at the seaside cinema of the town | Days: 12"
        " | Total: $3,000",
        "Ln: 2 | Film: Spring | Days: 24 | Total: $3,600",
        "Owner | Anna",
        "Make | Saab",
        "Year | 1987",
    ]
