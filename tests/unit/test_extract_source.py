from hopsyncd.formats.blocks import Block
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.readers import extract

PYTHON = """import os

# about foo
@cache
def foo():
    x = 1

    return x


class Foo(Base):
    y = 2


main()
"""


def test_python_definitions_become_headings() -> None:
    blocks = extract(PYTHON.encode(), "text/x-python")
    assert blocks == (
        Block("code", "import os", 1, 1),
        Block("heading", "def foo", 3, 5, level=1),
        Block("code", "# about foo\n@cache\ndef foo():\n    x = 1\n\n    return x", 3, 8),
        Block("heading", "class Foo", 11, 11, level=1),
        Block("code", "class Foo(Base):\n    y = 2", 11, 12),
        Block("heading", "", 15, 15, level=1),
        Block("code", "main()", 15, 15),
    )
    assert [passage.heading for passage in split_into_passages(blocks)] == [
        (),
        ("def foo",),
        ("class Foo",),
        (),
    ]


def test_python_that_does_not_parse_is_split_like_other_code() -> None:
    assert extract(b"print 1\n\nx = = 2\n", "text/x-python") == (
        Block("code", "print 1", 1, 1),
        Block("code", "x = = 2", 3, 3),
    )


def test_other_languages_keep_indented_groups_together() -> None:
    text = b"int f() {\n  a;\n\n  b;\n}\n\nint g;\n"
    assert extract(text, "text/x-source") == (
        Block("code", "int f() {\n  a;\n\n  b;\n}", 1, 5),
        Block("code", "int g;", 7, 7),
    )


def test_plain_text_keeps_the_lines_of_what_is_laid_out() -> None:
    text = b'one\ntwo\n\n\n{\n  "a": 1\n}\n'
    assert extract(text, "text/plain") == (
        Block("paragraph", "one\ntwo", 1, 2),
        Block("code", '{\n  "a": 1\n}', 5, 7),
    )
