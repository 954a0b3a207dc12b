"""What counts as a word in the full-text index, in every script."""

import re

# Scripts written without spaces: one word a character, so that a part of a phrase can be found.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
_WORD = re.compile(r"\w+")


def searchable(text: str) -> str:
    """The text with the characters of unspaced scripts set apart, for FTS5's tokenizer.

    >>> searchable("in 東京 now").split()
    ['in', '東', '京', 'now']
    """
    return _UNSPACED.sub(r" \1 ", text)


def count_words(text: str) -> int:
    """The number of words of a text."""
    return len(_WORD.findall(searchable(text)))
