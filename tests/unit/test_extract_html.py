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
        ("table", "A | B"),
        ("table", "1 | 2"),
    ]


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
