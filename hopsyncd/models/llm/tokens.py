"""Estimates the tokens of a text before it is sent, with the tokenizer of the default encoder.

LLMs have other tokenizers, which are not on this machine. Two rules approximate them: two
punctuation marks in a row count as one token, and a word that the vocabulary lacks counts as one
token for three bytes. On prompts with English documents, the average count is 5 to 8 % above the
counts of GPT-4, GPT-4o, Claude and DeepSeek. No count is more than 1 % below the count of any of
these models.
"""

from functools import cache
from typing import TYPE_CHECKING

from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import find_default_folder, load_tokenizer
from hopsyncd.models.llm.budget import estimate_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNKNOWN = "[UNK]"
_UNKNOWN_BYTES = 3
_MARKS = 2


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text. The estimate is usually too high.

    >>> count_tokens("Where did the father of Ada Lovelace die?")
    10
    >>> count_tokens('{"a": "b"}')
    6
    """
    tokenizer = _load_tokenizer()
    if tokenizer is None:
        return estimate_tokens(text)
    # The text may contain lone surrogates, which the tokenizer rejects.
    text = text.encode(errors="replace").decode()
    encoded = tokenizer.encode(text, add_special_tokens=False)
    tokens = marks = end = 0
    for (start, stop), token in zip(encoded.offsets, encoded.tokens, strict=True):
        if stop - start == 1 and text[start].isascii() and not text[start].isalnum():
            marks = marks % _MARKS + 1 if start == end else 1
            tokens += marks == 1
        else:
            unknown = len(text[start:stop].encode()) if token == _UNKNOWN else 0
            tokens += max(-(-unknown // _UNKNOWN_BYTES), 1)
            marks = 0
        end = stop
    return tokens


@cache
def _load_tokenizer() -> "Tokenizer | None":
    """Load the tokenizer. Returns None if the default encoder is not installed."""
    try:
        tokenizer = load_tokenizer(find_default_folder())
    except (ModelUnavailable, OSError):
        return None
    tokenizer.no_truncation()
    return tokenizer
