"""Bytes that are no text, or text made to be slow. Time limits are ten times what was measured."""

import random
import time

import pytest
from markdown_it.token import Token

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.markdown_inline import drop_hidden
from hopsyncd.formats.readers import extract
from store.records import Passage

TYPES = (
    "text/markdown",
    "text/html",
    "text/x-rst",
    "text/x-python",
    "text/x-source",
    "text/plain",
)
HOSTILE = (
    *("[", "![", "[a](", "*a ", "a**b", "_a*b", "`a", "- ", "> ", "- a\n", "# a\n", "|a", "\\"),
    *("<a ", "<!--", "</", "<a b='", "<b>", "<svg>", "<script>", "<ul><li>", "&amp;", "<td>"),
    *("a.", ".", ". ", "(", "今", "今。", "\n", "\t", "x\n\n", "  x\n\n", "- a\n  - b\n"),
    *("a\n=\n", "===\na\n===\n", ".. ", "..\n", "a::\n\n  b\n\n", "`a <b", ":a:`", "+--+\n"),
    *('"""', "{", "-", "def f(): pass\n", "~~~\n", "\u2028", "\x0c", "a_ ", "[a]: b\n"),
)


@pytest.mark.parametrize("media_type", TYPES)
def test_an_empty_document_has_no_blocks(media_type: str) -> None:
    assert extract(b"", media_type) == ()
    assert extract(b"\xef\xbb\xbf \r\n\r\n", media_type) == ()
    assert split_into_passages(()) == ()


@pytest.mark.parametrize("media_type", TYPES)
def test_binary_is_refused(media_type: str) -> None:
    for data in (b"ab\0cd", b"\x7fELF\x02\x01\0\0", random.Random(1).randbytes(2000)):
        with pytest.raises(DocumentUnreadable) as caught:
            extract(data, media_type)
        assert caught.value.why
        assert caught.value.hint


def test_binary_without_nul_is_refused() -> None:
    data = bytes(byte or 1 for byte in random.Random(2).randbytes(2000))
    with pytest.raises(DocumentUnreadable, match="not declared"):
        extract(data, "text/plain")


def test_an_unknown_type_is_refused_and_unknown_text_is_read() -> None:
    with pytest.raises(DocumentUnreadable, match="application/x-tar"):
        extract(b"x", "application/x-tar")
    assert extract(b"x", "text/x-anything")[0].text == "x"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\ufeffé".encode(), "é"),
        ("é\r\nb\rc".encode("utf-16"), "é\nb\nc"),
        (b"\xfe\xff" + "é".encode("utf-16-be"), "é"),
        ("é".encode("utf-32"), "é"),
        ("un café".encode("latin-1"), "un café"),
        (b"\x93quoted\x94", "\u201cquoted\u201d"),
        ("déjà vu €".encode()[:-1], "déjà vu \ufffd"),
    ],
)
def test_text_is_decoded_by_its_declared_or_detected_charset(data: bytes, text: str) -> None:
    assert extract(data, "text/plain")[0].text == text


def test_a_declared_charset_is_used_unless_the_text_is_utf_8() -> None:
    assert extract("東京".encode("shift-jis"), "text/html; charset=Shift_JIS")[0].text == "東京"
    assert extract("東京".encode(), 'text/html; charset="no-such"')[0].text == "東京"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b'{"a": "half \\ud800 a pair"}', "application/json"),
        (
            b'{"cells": [{"cell_type": "markdown", "source": "# half \\ud800 a pair"}]}',
            "application/x-ipynb+json",
        ),
    ],
)
def test_a_character_that_utf_8_cannot_encode_is_replaced(data: bytes, media_type: str) -> None:
    (passage,) = split_into_passages(extract(data, media_type))
    assert "half ? a pair" in passage.text
    assert Passage(passage.heading, passage.text).id


def test_damaged_utf_16_is_refused() -> None:
    with pytest.raises(DocumentUnreadable, match="utf-16-le"):
        extract(b"\xff\xfea\0\x00\xd8", "text/plain")


@pytest.mark.parametrize("media_type", TYPES)
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_repetition_takes_linear_time(piece: str, media_type: str) -> None:
    data = (piece * (20_000 // len(piece))).encode()
    start = time.process_time()
    passages = split_into_passages(extract(data, media_type))
    assert time.process_time() - start < 4
    assert all(len(passage.text.encode()) <= 1700 for passage in passages)


def test_hostile_front_matter_is_read_in_linear_time() -> None:
    data = b"---\ntags: a" + b" " * 64_000 + b"b\n---\nRome.\n"
    start = time.process_time()
    assert extract(data, "text/markdown")
    assert time.process_time() - start < 1


@pytest.mark.parametrize("style", ["text-decoration:", "text-decoration-"])
def test_a_hostile_style_is_read_in_linear_time(style: str) -> None:
    data = f'<p style="line-through {style * 8000}">Rome.</p>'.encode()
    start = time.process_time()
    assert extract(data, "text/html")
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("start", "piece"), [("<li ", "--en-checked:true"), ("<en-todo ", ' checked="true"')]
)
def test_a_hostile_step_of_evernote_is_read_in_linear_time(start: str, piece: str) -> None:
    note = f"<note><content><![CDATA[Rome. {start}{piece * 12_000}]]></content></note>"
    begun = time.process_time()
    assert extract(f"<en-export>{note}</en-export>".encode(), "application/enex+xml")
    assert time.process_time() - begun < 2


def test_repeated_fields_of_joplin_are_read_in_linear_time() -> None:
    data = b"Tides\n\nRome.\n\n" + (b"id: " + b"0" * 32 + b"\ntype_: 1\n\n") * 1000
    start = time.process_time()
    assert any("Rome." in block.text for block in extract(data, "text/markdown"))
    assert time.process_time() - start < 2


def test_a_long_paragraph_with_tags_is_read_in_linear_time() -> None:
    ruby, tag, text = (
        Token(kind, "", 0, content=content)
        for kind, content in (
            ("html_inline", "<ruby>"),
            ("html_inline", "<b>"),
            ("text", "Rome " * 20),
        )
    )
    start = time.process_time()
    assert drop_hidden([ruby, *[text, tag] * 20_000])
    assert time.process_time() - start < 2


@pytest.mark.parametrize("media_type", TYPES)
def test_a_huge_line_is_read_in_bounded_time(media_type: str) -> None:
    data = b"lorem ipsum dolor sit amet. " * 75_000
    start = time.process_time()
    passages = split_into_passages(extract(data, media_type))
    assert time.process_time() - start < 20
    assert passages


def test_deeply_nested_brackets_do_not_exhaust_the_stack() -> None:
    for text in ("(" * 50_000, "-" * 50_000 + "1", "x = " + "[" * 50_000, "a+" * 50_000 + "a"):
        assert extract(text.encode(), "text/x-python")
