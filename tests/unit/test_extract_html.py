from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/html; charset=utf-8")


def test_structure_and_lines() -> None:
    text = (
        "<h1>A\nb</h1>\n<p>one <b>two</b>\n  three</p>\n<ul><li>x<li>y</ul>\n<pre>\n a\n\n b</pre>"
    )
    assert blocks(text) == (
        Block("heading", "A b", 1, 2, level=1),
        Block("paragraph", "one two\nthree", 3, 4),
        Block("list_item", "x", 5, 5),
        Block("list_item", "y", 5, 5),
        Block("code", " a\n\n b", 7, 9),
    )


def test_a_table_row_is_one_block() -> None:
    text = "<table><tr><th>A<th>B</tr><tr><td>1</td><td><p>2</p></td></tr></table>"
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("table", "A: 1 | B: 2"),
    ]
    plain = "<table><tr><td>1<td>2<tr><td><td>4</table><table><tr><th>A<th>B</table>"
    assert [block.text for block in blocks(plain)] == ["1 | 2", "4", "A | B"]


def test_the_title_is_the_heading_only_without_h1() -> None:
    assert blocks("<title>T &amp; U</title><p>x")[0] == Block("heading", "T & U", 1, 1, level=1)
    assert [b.text for b in blocks("<title>T</title><h1>H</h1>")] == ["H"]


def test_scripts_styles_and_comments_are_dropped() -> None:
    text = "<script>if (a<b) '</p>'</script><style>p{}</style><!-- <p>no --><p>yes<!doctype x>"
    assert [block.text for block in blocks(text)] == ["yes"]


def test_broken_markup_keeps_its_text() -> None:
    assert blocks("a < b <p title='x > y'>c <p class=it's>d")[0].text == "a < b"
    assert [b.text for b in blocks("<p title='x > y'>c <p class=it's>d")] == ["c", "d"]
    assert blocks("<p>5 <6> 7 </ 8")[0].text == "5 <6> 7 </ 8"


def test_links_stand_where_their_text_begins() -> None:
    text = (
        '<p>See <a href="b%20c.html#x"> the\n <b>other</b></a>, <a name=q>here</a> or'
        ' <a href=mailto:a@x.y>ask</a>.</p><a href="d.md"><h2>Head</h2><p>Text</p></a>'
    )
    paragraph, heading, below = blocks(text)
    assert paragraph.text == "See the\nother, here or ask."
    assert [(at, link.target, link.shown) for at, link in paragraph.links] == [
        (4, "b c.html#x", "the other")
    ]
    assert [link.shown for _, link in (*heading.links, *below.links)] == ["Head", "Text"]


def test_links_in_rows_are_those_of_their_cells() -> None:
    text = '<table><tr><td>x<td> <a href="a.md">one</a> <td><a href="b.md">two</a></table>'
    (row,) = blocks(text)
    assert [(row.text[at : at + 3], link.target) for at, link in row.links] == [
        ("one", "a.md"),
        ("two", "b.md"),
    ]


def test_a_term_stands_with_its_definition() -> None:
    text = "<dl><dt>-n<dt>--dry-run<dd><p>Show only.<p>Change nothing.<dt>-q<dd>Be quiet</dl><p>End"
    assert [(block.text, block.leads) for block in blocks(text)] == [
        ("-n, --dry-run: Show only.", ()),
        ("Change nothing.", ("-n, --dry-run",)),
        ("-q: Be quiet", ()),
        ("End", ()),
    ]


def test_lists_are_led_by_what_introduces_them() -> None:
    text = "<p>Two of them:<ul><li>One. More.<ul><li>Sub</ul><li>Two</ul><p>End"
    assert [(block.text, block.leads) for block in blocks(text)] == [
        ("Two of them:", ()),
        ("One. More.", ("Two of them:",)),
        ("Sub", ("Two of them:", "One.")),
        ("Two", ("Two of them:",)),
        ("End", ()),
    ]


def test_what_leads_through_the_page_is_no_text_but_its_links_stay() -> None:
    text = (
        "<title>Mill</title><div class='x menu'><ul><li><a href=a.html>A</a></ul></div>"
        "<nav><a href=b.html>B</a></nav><ul><li><a href=c.html>C</a></ul><h1>Mill</h1>"
        "<ul class=toc><li><a href=#x>X</a></ul><div><a href=#y>Y</a></div><p>It grinds."
        "<p><a href=d.html>D</a><nav>unclosed <p>text"
    )
    found = blocks(text)
    assert [block.text for block in found if block.text] == [
        "Mill",
        "It grinds.",
        "D",
        "unclosed",
        "text",
    ]
    targets = [link.target for block in found for _, link in block.links]
    assert targets == ["a.html", "b.html", "c.html", "#x", "#y", "d.html"]


def test_a_bold_line_is_a_heading_and_a_bold_sentence_is_not() -> None:
    text = "<h2>Limits</h2><li><p><b>Joins</b></p><p>64.</p><li><p><b>Take care.</b></p></li>"
    assert [(block.text, block.level) for block in blocks(text)] == [
        ("Limits", 2),
        ("Joins", 3),
        ("64.", 0),
        ("Take care.", 0),
    ]


def test_chapters_stand_below_the_title_of_the_page() -> None:
    text = "<title>Log</title><h1>One</h1>a<h2>Two</h2>b<h1>Three</h1>c"
    assert [(b.text, b.level) for b in blocks(text) if b.level] == [
        ("Log", 1),
        ("One", 2),
        ("Two", 3),
        ("Three", 2),
    ]
    same = blocks("<title>The Log</title><h2>The log</h2>a<h2>Two</h2>b")
    assert [(b.text, b.level) for b in same if b.level] == [("The log", 1), ("Two", 2)]


def test_a_box_of_text_is_read_and_ends_where_it_closes_but_a_menu_is_not() -> None:
    box = "<div class=sidebar><p><b>Going further</b></p><p>Inside, <a href=x>linked</a>.</p></div>"
    menu = "<div class=sidebar><p>See</p><a href=x>Another page</a></div>"
    found = blocks(f"<h1>A</h1><h2>B</h2><p>one</p>{box}{menu}<p>after</p>")
    assert [(b.kind, b.text, b.level) for b in found if b.level or b.text] == [
        ("heading", "A", 1),
        ("heading", "B", 2),
        ("paragraph", "one", 0),
        ("heading", "Going further", 3),
        ("paragraph", "Inside, linked.", 0),
        ("heading", "", 3),
        ("paragraph", "after", 0),
    ]


def test_the_title_of_a_note_is_no_heading_of_what_follows_the_note() -> None:
    note = "<div class=note><h3>Note</h3><p>Only since 12.</p></div>"
    page = f"<h1>A</h1><div class=navheader><p>Prev</p></div><p>one</p>{note}<p>after</p>"
    assert [(b.kind, b.text) for b in blocks(page) if b.text] == [
        ("heading", "A"),
        ("paragraph", "one"),
        ("paragraph", "Note:"),
        ("paragraph", "Only since 12."),
        ("paragraph", "after"),
    ]


def test_a_first_heading_that_says_the_title_is_the_title_below_text_too() -> None:
    page = "<title>The Mill</title><p>Of old.<h1>The Mill</h1><p>a<h1>Corn</h1><p>b"
    assert [(block.text, block.level) for block in extract(page.encode(), "text/html")] == [
        ("The Mill", 1),
        ("Of old.", 0),
        ("a", 0),
        ("Corn", 2),
        ("b", 0),
    ]
