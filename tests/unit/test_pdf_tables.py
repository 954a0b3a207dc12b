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
        for index in range(6):
            canvas.drawString(
                50, 600 - 14 * index, "the body of the text is set in small type here"
            )
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
        for index, name in enumerate(("SECADM", "JOBCTL", "No rights")):
            canvas.saveState()
            canvas.translate(324 + 40 * index, 626)
            canvas.rotate(90)
            canvas.drawString(0, 0, name)
            canvas.restoreState()
        for index, (action, marks) in enumerate(
            (("Start a trace", "X X"), ("Change the plan", "XX"), ("Read the log", "XXX"))
        ):
            canvas.drawString(66, 606 - 20 * index, action)
            # A wide spacing between the letters, and no space, puts them into their columns.
            text = canvas.beginText(316, 606 - 20 * index)
            text.setCharSpace(34)
            text.textOut(marks.replace(" ", ""))
            text.setCharSpace(0)
            canvas.drawText(text)

    assert texts(read(draw)) == [
        "Action: Start a trace | SECADM: X | JOBCTL: X",
        "Action: Change the plan | SECADM: X | JOBCTL: X",
        "Action: Read the log | SECADM: X | JOBCTL: X | No rights: X",
    ]


@pytest.mark.parametrize("edges", [[40, 300], [20, 40, 560, 580]])
def test_a_narrow_column_beside_the_text_is_read_by_itself(edges: list[int]) -> None:
    aside = ("Implement roles", "and separation", "of duties", "Leverage row", "permissions")
    told = "the publication tells of the function and of its advantages"

    def draw(canvas: Canvas) -> None:
        canvas.grid(edges, [100, 300, 500, 720])
        canvas.setFont("Helvetica", 10)
        for index, line in enumerate(aside):
            canvas.drawString(50, 699 - 14 * index, line)
        for index in range(9):
            canvas.drawString(190, 700 - 12 * index, f"{index} {told}")

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
            for index in range(12):
                canvas.drawString(50 + 180 * column, 700 - 12 * index, f"{line} {column}")
            canvas.drawString(50 + 180 * column, 700 - 12 * 12, "end.")

    said = ["\n".join([*[f"{line} {index}"] * 12, "end."]) for index in range(3)]
    assert texts(read(draw))[1:] == said


def test_names_above_numbers_are_headers_and_a_note_stands_with_its_row() -> None:
    rows = (("Ln", "Film", "Days", "Total"), ("1", "Winter", "12", "$3,000"))

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        for index, row in enumerate((*rows, (), ("2", "Spring", "24", "$3,600"))):
            for column, text in enumerate(row):
                canvas.drawString(50 + 90 * column, 700 - 14 * index, text)
        canvas.drawString(140, 672, "(98 min); at the seaside cinema of the town")
        for index, row in enumerate((("Owner", "Anna"), ("Make", "Saab"), ("Year", "1987"))):
            for column, text in enumerate(row):
                canvas.drawString(50 + 90 * column, 600 - 14 * index, text)

    assert texts(read(draw)) == [
        "Ln: 1 | Film: Winter (98 min); at the seaside cinema of the town | Days: 12"
        " | Total: $3,000",
        "Ln: 2 | Film: Spring | Days: 24 | Total: $3,600",
        "Owner | Anna",
        "Make | Saab",
        "Year | 1987",
    ]


def test_cells_without_a_line_between_them_are_one_spanning_cell() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.lines([(x, 640, x, 680) for x in (40, 120, 180, 240, 300, 360)])
        canvas.lines([(x, 680, x, 700) for x in (40, 120, 240, 360)])
        canvas.lines([(40, y, 360, y) for y in (640, 660, 700)] + [(120, 680, 360, 680)])
        canvas.setFont("Helvetica-Bold", 9)
        for x, y, text in ((60, 677, "Length"), (168, 687, "Summer"), (290, 687, "Winter")):
            canvas.drawString(x, y, text)
        for index, name in enumerate(("Visitor", "Member") * 2):
            canvas.drawString(125 + 60 * index, 667, name)
        canvas.setFont("Helvetica", 9)
        for x, text in zip((45, 125, 185, 245, 305), ("8-12 m", *"1234"), strict=True):
            canvas.drawString(x, 647, text)

    assert texts(read(draw)) == [
        "Length: 8-12 m | Summer > Visitor: 1 | Summer > Member: 2 | Winter > Visitor: 3"
        " | Winter > Member: 4"
    ]


@pytest.mark.parametrize("is_number", [True, False])
def test_groups_of_columns_above_numbers_are_headers_though_not_bold(is_number: bool) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.lines([(x, 620, x, 680) for x in (40, 120, 180, 240, 300, 360)])
        canvas.lines([(x, 680, x, 700) for x in (40, 120, 240, 360)])
        canvas.lines([(40, y, 360, y) for y in (620, 640, 660, 700)] + [(120, 680, 360, 680)])
        for x, y, text in ((60, 677, "Length"), (168, 687, "Summer"), (290, 687, "Winter")):
            canvas.drawString(x, y, text)
        for index, name in enumerate(("Visitor", "Member") * 2):
            canvas.drawString(125 + 60 * index, 667, name)
        for y, values in ((647, "1234"), (627, "5678")):
            for index, value in enumerate(("8-12 m", *(values if is_number else "abcd"))):
                canvas.drawString((45, 125, 185, 245, 305)[index], y, value)

    rows = texts(read(draw))
    first = (
        "Length: 8-12 m | Summer > Visitor: 1 | Summer > Member: 2 | Winter > Visitor: 3"
        " | Winter > Member: 4"
    )
    assert (first in rows) is is_number
    assert any("Summer >" in row for row in rows) is is_number


def test_adjoining_cell_texts_are_split_at_the_ruling_line() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.grid([40, 100, 200, 300], [640, 660, 680])
        for index, row in enumerate(
            (("Category of", "first group"), ("Criterion of", "second one"))
        ):
            for column, text in enumerate((*row, "last")):
                place = (98 if not column else 201.5 if column == 2 else 101.5, 667 - 20 * index)
                (canvas.drawString if column else canvas.drawRightString)(*place, text)

    assert texts(read(draw)) == [
        "Category of | first group | last",
        "Criterion of | second one | last",
    ]


def test_numbers_of_narrow_columns_stand_in_their_own() -> None:
    rows = (("Text", "Out", "In", "Balance"), ("Rent", "500.00", "", "7,500.00"))

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        for index, row in enumerate((*rows, ("Salary", "", "31,250.00", "38,750.00"))):
            for column, text in enumerate(row):
                canvas.drawRightString((80, 140, 185, 229)[column], 700 - 14 * index, text)

    assert texts(read(draw)) == [
        "Text: Rent | Out: 500.00 | Balance: 7,500.00",
        "Text: Salary | In: 31,250.00 | Balance: 38,750.00",
    ]


def test_the_values_of_a_form_stand_beside_their_labels_line_by_line() -> None:
    fields = {"Name of boat": "Astrid", "Owner": "Ilse Brandt", "Length": "11.4"}

    def draw(canvas: Canvas) -> None:
        for index, (label, value) in enumerate(fields.items()):
            canvas.drawString(50, 700 - 30 * index, label)
            canvas.acroForm.textfield(
                name=label, value=value, x=180, y=695 - 30 * index, width=200, height=18
            )

    assert texts(read(draw)) == [f"{label} | {value}" for label, value in fields.items()]


def test_a_year_in_a_title_is_no_value_and_a_table_follows_its_caption() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(50, 740, "Harbour dues 2024")
        canvas.setFont("Helvetica", 9)
        canvas.drawString(50, 720, "Dues of a night")
        canvas.grid([50, 120, 200, 280], [660, 680, 700])
        for index, row in enumerate((("8 m", "210", "140"), ("12 m", "310", "200"))):
            for column, text in enumerate(row):
                canvas.drawString((55, 125, 205)[column], 687 - 20 * index, text)
        for index in range(12):
            canvas.drawString(50, 600 - 12 * index, "the left column of the page has its text")
            canvas.drawString(320, 601 - 12 * index, "the right column has a text of its own")
        canvas.setFont("Helvetica", 7)
        canvas.drawString(320, 780, "a running head above all")

    blocks = read(draw)
    assert ("heading", "Harbour dues 2024") in [(block.kind, block.text) for block in blocks]
    said = [block.text.partition("\n")[0] for block in blocks]
    assert said.index("8 m | 210 | 140") == said.index("Dues of a night") + 1


def test_a_foot_with_the_page_number_at_its_end_is_running() -> None:
    def draw(canvas: Canvas) -> None:
        for page in range(1, 4):
            canvas.drawString(50, 700, f"Step {page}")
            canvas.drawString(50, 660, f"the text of page {page}")
            canvas.setFont("Helvetica", 8)
            canvas.drawString(50, 20, "Harbour office - confidential")
            canvas.drawRightString(550, 20, str(page))
            canvas.showPage()

    said = " ".join(texts(read(draw)))
    assert said.count("confidential") == 1
    assert "Step 3" in said


def test_a_compound_is_broken_where_it_has_a_hyphen() -> None:
    lines = ("sailed on the state-of-the-", "art vessel, and the manage-", "ment of 2019-")

    def draw(canvas: Canvas) -> None:
        for index, line in enumerate((*lines, "2024 opened the 24-", "hour quay of the harbour.")):
            canvas.drawString(50, 700 - 14 * index, line)

    assert texts(read(draw)) == [
        "sailed on the state-of-the-art vessel, and the management of 2019-2024 opened the"
        " 24-hour quay of the harbour."
    ]


def _words(canvas: Canvas, rows: tuple[tuple[str, ...], ...]) -> None:
    """Draw rows of three cells below each other, 20 points apart."""
    canvas.setFillGray(0)
    for number, row in enumerate(rows):
        for index, text in enumerate(row):
            canvas.drawString(66 + 140 * index, 606 - 20 * number, text)


@pytest.mark.parametrize("is_ruled", [True, False])
def test_a_shaded_first_row_names_the_columns(is_ruled: bool) -> None:
    rows = (
        ("Kind", "Before", "After"),
        ("Class", "group one", "grade one"),
        ("Reach", "by food", "by air"),
        ("All", "some", "many"),
    )

    def draw(canvas: Canvas, shaded: tuple[int, ...]) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.setFillColorRGB(0.5, 0.7, 0.9)
        for row in shaded:
            canvas.rect(60, 600 - 20 * row, 420, 20, stroke=0, fill=1)
        if is_ruled:
            canvas.grid([60, 200, 340, 480], [540, 560, 580, 600, 620])
        _words(canvas, rows)

    named = [
        "Kind: Class | Before: group one | After: grade one",
        "Kind: Reach | Before: by food | After: by air",
        "Kind: All | Before: some | After: many",
    ]
    assert texts(read(lambda canvas: draw(canvas, (0,)))) == named
    plain = [" | ".join(row) for row in rows]
    assert texts(read(lambda canvas: draw(canvas, (0, 2)))) == plain
    assert texts(read(lambda canvas: draw(canvas, (0, 1, 2, 3)))) == plain
    assert texts(read(lambda canvas: draw(canvas, ()))) == plain


def test_a_white_box_over_a_colour_is_no_background() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        for colour in (0.6, 1.0):
            canvas.setFillGray(colour)
            canvas.rect(60, 600, 420, 20, stroke=0, fill=1)
        canvas.grid([60, 200, 340, 480], [560, 580, 600, 620])
        _words(canvas, (("Oslo", "north", "yes"), ("Rome", "south", "no"), ("Bonn", "west", "no")))

    assert texts(read(draw))[0] == "Oslo | north | yes"


def test_lines_that_a_comma_leaves_unfinished_go_on_in_their_cell() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        lines = (("SELECT", "function,"), ("", "user,"), ("", "usage"), ("FROM", "functions"),
                 ("ORDER", "user"))  # fmt: skip
        for number, (name, text) in enumerate(lines):
            canvas.drawString(66, 606 - 11 * number, name)
            canvas.drawString(130, 606 - 11 * number, text)

    assert texts(read(draw)) == [
        "SELECT | function, user, usage",
        "FROM | functions",
        "ORDER | user",
    ]


def test_years_above_numbers_name_columns() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        _words(canvas, (("", "2022", "2023"), ("Sales", "1,234", "2,345"), ("Cost", "(9)", "(8)")))

    assert texts(read(draw)) == [
        "Sales | 2022: 1,234 | 2023: 2,345",
        "Cost | 2022: (9) | 2023: (8)",
    ]


def test_a_table_with_one_long_cell_is_a_table() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.grid([60, 140, 300], [540, 560, 605, 620])
        canvas.drawString(66, 546, "Bo")
        canvas.drawString(146, 546, "Short")
        canvas.drawString(66, 594, "Ann")
        for index, line in enumerate(
            ("A long note that wraps over", "several lines in its cell,", "to the end")
        ):
            canvas.drawString(146, 594 - 12 * index, line)
        canvas.setFont("Helvetica-Bold", 9)
        canvas.drawString(66, 608, "Name")
        canvas.drawString(146, 608, "Note")

    assert texts(read(draw)) == [
        "Name: Ann | Note: A long note that wraps over several lines in its cell, to the end",
        "Name: Bo | Note: Short",
    ]


def test_the_lines_of_a_wrapped_cell_make_one_value_where_rows_are_farther_apart() -> None:
    def draw(canvas: Canvas, apart: int) -> None:
        canvas.setFont("Helvetica", 10)
        lines = ("A long note that wraps", "over several lines in its", "cell"), ("Short",)
        height = 700
        for name, note, age in (
            ("Name", ("Note",), "Age"),
            ("Ann", lines[0], "30"),
            ("Bo", lines[1], "31"),
        ):
            canvas.drawString(60, height, name)
            canvas.drawString(260, height, age)
            for line in note:
                canvas.drawString(120, height, line)
                height -= 12
            height -= apart

    assert texts(read(lambda canvas: draw(canvas, 8))) == [
        "Name: Ann | Note: A long note that wraps over several lines in its cell | Age: 30",
        "Name: Bo | Note: Short | Age: 31",
    ]
    close = texts(read(lambda canvas: draw(canvas, 0)))
    assert close[0] == "Name: Ann | Note: A long note that wraps | Age: 30"


def test_a_table_ends_at_a_larger_heading_and_at_a_list() -> None:
    rows = [("Day", "Open", "Close"), ("Monday", "9", "17"), ("Tuesday", "10", "20")]
    items = [("1.", "Check the gas"), ("2.", "Load it"), ("\u2022", "Go")]

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 12)
        for index, row in enumerate(rows):
            for column, text in enumerate(row):
                canvas.drawString(72 + 130 * column, 700 - 15 * index, text)
        canvas.setFont("Helvetica-Bold", 14)
        canvas.drawString(72, 650, "Steps")
        canvas.setFont("Helvetica", 12)
        for index, (marker, text) in enumerate(items):
            canvas.drawString(78, 632 - 15 * index, marker)
            canvas.drawString(100, 632 - 15 * index, text)

    assert texts(read(draw)) == [
        "Day: Monday | Open: 9 | Close: 17",
        "Day: Tuesday | Open: 10 | Close: 20",
        "Steps",
        "1. Check the gas",
        "2. Load it",
        "\u2022 Go",
    ]


def test_the_last_cell_of_a_table_can_have_a_second_line() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 12)
        rows = (
            ("Course", "Full price", "Reduced"),
            ("Throwing", "310", "210"),
            ("Glazing", "420", "280 (clay"),
        )
        for index, row in enumerate(rows):
            for column, text in enumerate(row):
                canvas.drawString(72 + 110 * column, 700 - 22 * index, text)
        canvas.drawString(292, 642, "included)")

    assert (
        texts(read(draw))[-1] == "Course: Glazing | Full price: 420 | Reduced: 280 (clay included)"
    )


def test_single_letters_below_each_other_are_no_word() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Times-Roman", 12)
        for index, letter in enumerate("ABC"):
            canvas.drawString(60 + 80 * index, 771, letter)
        for index, digit in enumerate("123"):  # PDFium joins them to "123"
            canvas.drawString(61, 751 - 20 * index, digit)

    assert " ".join(texts(read(draw))).split() == ["A", "B", "C", "1", "2", "3"]


def test_groups_named_above_their_middle_name_the_columns_of_numbers() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.drawString(175, 700, "All")
        canvas.drawString(355, 700, "Male")
        names = ("Year", *("Low", "Mid", "High") * 2)
        for number, line in enumerate((names, ("1996", *"123456"), ("1997", *"234567"))):
            for x, text in zip(range(50, 411, 60), line, strict=True):
                canvas.drawString(x, 685 - 15 * number, text)

    assert texts(read(draw))[-1] == (
        "Year: 1997 | All > Low: 2 | All > Mid: 3 | All > High: 4"
        " | Male > Low: 5 | Male > Mid: 6 | Male > High: 7"
    )
