from hopsyncd.text.blocks import Block
from hopsyncd.text.extract import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/markdown")


def test_headings_paragraphs_and_lines() -> None:
    assert blocks("# One\n\nfirst\nline\n\nTwo\n---\n\nlast\n") == (
        Block("heading", "One", 1, 1, level=1),
        Block("paragraph", "first\nline", 3, 4),
        Block("heading", "Two", 6, 6, level=2),
        Block("paragraph", "last", 9, 9),
    )


def test_markup_is_reduced_to_its_visible_text() -> None:
    (block,) = blocks("A **bold** [link](http://x.y), `a_b`, ![alt](i.png) &amp; a\\*b<br>c\n")
    assert block.text == "A bold link, a_b, alt & a*b c"


def test_reference_links_need_their_definition() -> None:
    assert [block.text for block in blocks("[a][1] and [b][2]\n\n[1]: http://x\n")] == [
        "a and [b][2]"
    ]


def test_front_matter_title_becomes_the_heading_where_there_is_none() -> None:
    text = '---\ndate: 1\ntitle: "Foo: bar"\n---\n\ntext\n'
    assert blocks(text) == (
        Block("heading", "Foo: bar", 3, 3, level=1),
        Block("paragraph", "text", 6, 6),
    )
    assert [block.text for block in blocks(text + "\n# Own\n")] == ["text", "Own"]


def test_a_thematic_break_is_no_front_matter() -> None:
    assert [block.text for block in blocks("---\n\ntext\n")] == ["text"]
    assert [block.text for block in blocks("---\nnever: closed\n")] == ["never: closed"]


def test_code_is_kept_and_cited_without_its_fence() -> None:
    assert blocks("```py\ndef f():\n\n    x\n```\n\n    indented\n") == (
        Block("code", "def f():\n\n    x", 2, 4),
        Block("code", "indented", 7, 7),
    )


def test_list_items_and_table_rows() -> None:
    assert blocks("- a\n  b\n  - c\n\n| x | y |\n|---|---|\n| 1 | **2** |\n") == (
        Block("list_item", "a\nb", 1, 2),
        Block("list_item", "c", 3, 3),
        Block("table", "x | y", 5, 5),
        Block("table", "1 | 2", 7, 7),
    )


def test_embedded_html_is_read_as_html_at_its_lines() -> None:
    assert blocks("text\n\n<div>\n<h2>Head</h2>\n<p>body</p></div>\n") == (
        Block("paragraph", "text", 1, 1),
        Block("heading", "Head", 4, 4, level=2),
        Block("paragraph", "body", 5, 5),
    )


def test_what_is_nested_too_deep_for_the_parser_is_not_lost() -> None:
    for text in (">" * 5000 + " needle", "- " * 5000 + "needle", "[" * 5000 + "needle"):
        assert any("needle" in block.text for block in blocks(text))


def test_a_run_away_heading_is_a_paragraph() -> None:
    assert blocks("# " + "word " * 100)[0].kind == "paragraph"
