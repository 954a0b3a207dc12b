"""However a text is made, reading it and cutting it into passages takes time linear in its size.

Each shape is read at two sizes, four to one. The least of several runs counts, in processor time:
a busy machine makes runs longer, never shorter.
"""

import time
from itertools import cycle, islice

import pytest

from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.readers import extract

SHAPES = {
    "full stops": ". ",
    "one word": "a",
    "newlines": "\n",
    "opening brackets": "[",
    "closing brackets": ")]",
    "braces": "{ ",
    "combining characters": "\u0301",
    "letters with marks": "e\u0301",
    "one line of words": "word ",
    "sentences": "It is so. ",
    "abbreviations": "e.g. ",
    "initials": "A. ",
    "lower case after stops": "x. y",
    "marks": "!?",
    "stops and quotes": '.)" ',
    "ellipses": "… ",
    "ideographs": "今",
    "ideographic stops": "。",
    "wrapped ideographs": "今、\n",
    "spaces": " ",
    "tabs": "\t",
    "no-break spaces": "\u00a0",
    "a word, then spaces": "a" + " " * 1000,
    "stops far apart": "." + " " * 10,
    "short lines": "a\n",
    "paragraphs of a letter": "a\n\n",
    "indented lines": "    x\n",
    "line separators": "a\u2028",
    "form feeds": "\f",
    "lines with carriage returns": "x\r\n",
    "headings": "# a\n",
    "headings in headings": "# a\n## b\n### c\ntext\n",
    "list items": "- a\n",
    "table rows": "| a | b |\n",
    "backticks": "`",
    "emphasis": "*a",
    "tags": "<b>",
    "closing tags": "</b>",
    "entities": "&amp;",
    "links": "[a](b) ",
    "quotes": "> a\n",
    "fences": "```\n",
    "joined emoji": "\U0001f469\u200d",
    "right to left": "שלום ",
    "Hindi": "यह है। ",
    "hashes that differ": "".join(f"w{number}. " for number in range(5000)),
    "lines that differ": "".join(f"w{number}\n" for number in range(5000)),
}
GROWTH = 7.0  # sixteen where it is quadratic


def cut_s(shape: str, media_type: str, size: int, runs: int) -> float:
    """The least processor time that it takes to read and cut so many characters of the shape."""
    data = "".join(islice(cycle(shape), size)).encode()
    took_s = []
    for _ in range(runs):
        began_s = time.process_time()
        split_into_passages(extract(data, media_type))
        took_s.append(time.process_time() - began_s)
    return min(took_s)


def assert_linear(shape: str, media_type: str, size: int) -> None:
    for runs in (1, 3, 8):  # only what looks bad is measured again
        small_s = cut_s(shape, media_type, size, 2 * runs)
        large_s = cut_s(shape, media_type, 4 * size, runs)
        if large_s < GROWTH * small_s + 0.05:
            return
    raise AssertionError(f"{small_s:.2f} s, of four times the size {large_s:.2f} s")


@pytest.mark.parametrize("name", SHAPES)
def test_text_is_cut_in_linear_time(name: str) -> None:
    assert_linear(SHAPES[name], "text/plain", 1 << 15)


@pytest.mark.nightly
@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown", "text/html", "text/x-rst"])
@pytest.mark.parametrize("name", SHAPES)
def test_large_documents_are_cut_in_linear_time(name: str, media_type: str) -> None:
    assert_linear(SHAPES[name], media_type, 1 << 20)
