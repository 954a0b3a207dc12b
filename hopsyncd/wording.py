"""How passages and edges are called, for people and for agents."""

from collections.abc import Mapping
from typing import Any

# Which end of an edge raises its question, or has the link; "both": they share a name.
ARROWS = {"from": "->", "to": "<-", "both": "--", "link": "=>", "backlink": "<="}


def title_of(passage: Mapping[str, Any]) -> str:
    """What to call a passage: the headings above it, or else its document.

    >>> title_of({"heading": ["Ada", "Youth"], "document": "ada.md"})
    'Ada > Youth'
    """
    return " > ".join(passage["heading"]) or str(passage["document"])
