"""How passages, edges and counts are called, for people and for agents."""

from collections.abc import Mapping
from typing import Any

# Which end of an edge raises its question, or has the link; "both": they share a name.
ARROWS = {"from": "->", "to": "<-", "both": "--", "link": "=>", "backlink": "<="}

# Documents and their names are not ours: no terminal shall obey what is in them.
_CONTROLS = {
    code: chr(code).encode("unicode_escape").decode() for code in (*range(32), *range(127, 160))
}


def title_of(passage: Mapping[str, Any]) -> str:
    """What to call a passage: the headings above it, or else its document.

    >>> title_of({"heading": ["Ada", "Youth"], "document": "ada.md"})
    'Ada > Youth'
    """
    return " > ".join(passage["heading"]) or str(passage["document"])


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "passage"), counted(2000, "passage")
    ('1 passage', '2,000 passages')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(text: str) -> str:
    """The text with its control characters as escapes.

    >>> printable("a\\x1b[2J\\n")
    'a\\\\x1b[2J\\\\n'
    """
    return text.translate(_CONTROLS)
