"""Links as documents write them, to links as they are kept: which are worth it, and how spelled."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

_MAX_CHARACTERS = 1000
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Link:
    """What a document names, and the text that a reader sees in its place."""

    target: str
    shown: str


def link_to_address(address: str, shown: str) -> Link | None:
    """A link of Markdown or HTML; None where it leads to no document (mail, scripts, data).

    >>> link_to_address("../My%20Notes.md#a", "mine")
    Link(target='../My Notes.md#a', shown='mine')
    >>> link_to_address("mailto:ann@example.org", "Ann") is None
    True
    """
    address = address.strip()
    if _SCHEME.match(address):
        return _link(address, shown) if address.lower().startswith(("http:", "https:")) else None
    return _link(unquote(address), shown)


def link_to_name(name: str, shown: str = "") -> Link | None:
    """A link by the name of a document, which stands for itself where nothing else is shown."""
    return _link(name, shown or name)


def _link(target: str, shown: str) -> Link | None:
    target = in_one_line(target)
    is_sound = target and len(target) <= _MAX_CHARACTERS
    return Link(target, in_one_line(shown)[:_MAX_CHARACTERS]) if is_sound else None


def in_one_line(text: str) -> str:
    r"""With single spaces, and without what no UTF-8 can hold.

    >>> in_one_line("Ada \n Lovelace\udc80")
    'Ada Lovelace?'
    """
    return " ".join(text.encode("utf-8", "replace").decode().split())
