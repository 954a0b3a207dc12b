"""How many words a text has. The record stores this count with each passage."""

import re

# Scripts written without spaces: each character is a word, so that part of a phrase can be found.
UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
WORD = re.compile(r"\w+")


def split_unspaced(text: str) -> str:
    """The text with spaces around each character of an unspaced script, for FTS5's tokenizer.

    >>> split_unspaced("in 東京 now").split()
    ['in', '東', '京', 'now']
    """
    return text if text.isascii() else UNSPACED.sub(r" \1 ", text)


def count_words(text: str) -> int:
    """The number of words in a text."""
    return len(WORD.findall(split_unspaced(text)))
