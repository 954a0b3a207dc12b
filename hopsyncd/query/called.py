"""What documents are called: names that their first passages are about, though no heading says so.

Nothing of this is stored, so a file that is renamed costs no question. A name that many documents
have, or that says nothing, is none.
"""

from collections.abc import Collection
from functools import lru_cache

from hopsyncd.graph.directory import file_title
from hopsyncd.graph.names import Called
from hopsyncd.text.keywords import STOP_WORDS, normalise
from store.database import Connection
from store.links import opening_passages_at, read_names
from store.records import PassageId

_FIRST = 4  # passages of a document
_MAX_PASSAGES = 32  # that a name may have

# With or without a number. Some begin questions, where capitals mark no name.
_NO_NAMES = STOP_WORDS | set(
    "chapter compare contents copy describe document draft explain file find give home index list "
    "main misc name new note notes page part readme section show tell todo untitled".split()
)


def called_passages(
    connection: Connection, version: int, hidden: Collection[str] = ()
) -> list[Called]:
    """The first passages of each document with its file's name, its title and its aliases.

    In no order. Documents of `hidden` sources count as if they were not there.
    """
    passages: dict[str, set[PassageId]] = {}
    for path, names, passage in opening_passages_at(connection, version, _FIRST, hidden):
        for name in _names(path, names):
            passages.setdefault(name, set()).add(passage)
    return [
        (passage, name)
        for name, having in passages.items()
        if len(having) <= _MAX_PASSAGES
        for passage in having
    ]


@lru_cache(maxsize=1 << 16)  # most are the same in the next version
def _names(path: str, names: str) -> frozenset[str]:
    """What the document is called, as keywords are spelled; `names` is as in the store.

    >>> sorted(_names("people/Ada Lovelace.md", '["Countess of Lovelace"]'))
    ['ada lovelace', 'countess of lovelace']
    >>> _names("journal/2026-11-01.md", '["Untitled 2", "<1@example.org>"]')
    frozenset()
    """
    called = (normalise(name) for name in (file_title(path), *read_names(names)) if "@" not in name)
    return frozenset(name for name in called if _tells(name))


def _tells(name: str) -> bool:
    words = " ".join(word for word in name.split() if not word.isdecimal())
    return len(words) > 1 and words not in _NO_NAMES
