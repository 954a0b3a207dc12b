from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/x-rst")


def test_sections_take_their_levels_from_the_order_of_adornments() -> None:
    text = "=====\nTitle\n=====\n\nSub\n~~~\ntext\n\nOther\n=====\n\nTwo\n~~~\n"
    assert [(b.text, b.level, b.first_line) for b in blocks(text)] == [
        ("Title", 1, 2),
        ("Sub", 2, 5),
        ("text", 0, 7),
        ("Other", 3, 9),
        ("Two", 2, 12),
    ]


def test_inline_markup_is_reduced() -> None:
    text = ":ref:`guide <x>`, `link <http://a.b>`_, ``co_de``, **b**, *i*, |sub|, foo_ and a_b.\n"
    assert blocks(text)[0].text == "guide, link, co_de, b, i, sub, foo and a_b."


def test_literal_blocks_and_code_directives_are_code() -> None:
    text = "So::\n\n  x\n\n    y\n\nafter\n\n.. code-block:: py\n   :linenos:\n\n   z = 1\n"
    assert blocks(text) == (
        Block("paragraph", "So:", 1, 1),
        Block("code", "x\n\n  y", 3, 5),
        Block("paragraph", "after", 7, 7),
        Block("code", "z = 1", 12, 12),
    )


def test_directives_with_text_keep_it_and_others_go() -> None:
    text = ".. note:: Careful\n   here\n\n.. toctree::\n   a\n\n.. comment\n   b\n\n.. _x:\n\nend\n"
    assert [block.text for block in blocks(text)] == ["Careful", "here", "end"]


def test_items_and_tables() -> None:
    text = "* a\n* b\n  c\n\n=== ===\nA   B\n=== ===\n1   2\n=== ===\n\n+--+--+\n|x | y|\n+--+--+\n"
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("list_item", "a"),
        ("list_item", "b\nc"),
        ("table", "A | B"),
        ("table", "1 | 2"),
        ("table", "x | y"),
    ]
