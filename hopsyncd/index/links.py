"""What links call documents, and which document a link means.

In this order, and never by guess: what two documents could be called means neither.

1. The link's own document, where the link names only a heading.
2. The path, from the folder of the link's document or from the top of its source.
3. The name of a file of the same source, with or without folders and suffix, as Obsidian, Logseq
   and Notion write file names.
4. A title, an alias or a Message-ID of the same source, then of any source; an address.

Documents have keys, and links try keys in turn, so that which document a link means costs what
shares a key with it.

Worked example. Of people/Ada Lovelace.md, notes/Ada.md and old/Ada.md, `[[Ada Lovelace]]` and
`[[people/ada lovelace]]` mean the first; `[[Ada]]` means notes/Ada.md in the notes beside it, and
nothing in the top folder.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urljoin

from store.records import content_id

_NOTION_ID = re.compile(r" [0-9a-f]{32}$")
_SUFFIX = re.compile(r"(?<=[^/])\.[A-Za-z]\w{0,7}$")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Named:
    """A document and what it may be called."""

    source: str
    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Try:
    """A key that a link may mean, and the key of the heading that it names then (0: none).

    Tries of one `turn` read the link alike: once one of them is ambiguous, the rest of the turn
    means nothing.
    """

    key: int
    heading: int
    turn: int


def document_keys(document: Named) -> list[int]:
    """The distinct keys that a document has: of its path, which it alone has, and of its names.

    >>> keys = document_keys(Named("notes", "people/Ada.md", ("Countess",)))
    >>> content_id("path", "notes", "people/Ada.md") in keys
    True
    >>> content_id("name", "", "countess") in keys
    True
    """
    source, path = document.source, document.path
    keys = {content_id("path", source, path): None}
    for file in _file_names(path):
        keys[content_id("file", source, file)] = None
    for name in map(_alike, document.names):
        keys[content_id("name", source, name)] = None
        keys[content_id("name", "", name)] = None
    if "://" in path:
        keys[content_id("name", "", _alike(path.rstrip("/")))] = None
    return list(keys)


def tries(target: str, source: str, path: str) -> list[Try]:
    """What a link in the document at that path of the source may mean, in turn."""
    if target.startswith("#"):
        return [Try(content_id("path", source, path), named_heading(target[1:]), 0)]
    found: list[Try] = []
    # Names may have a # too.
    for turn, (file, _, heading) in enumerate(
        ((target, "", ""), target.partition("#"), target.rpartition("#"))
    ):
        if not file:
            continue
        under = named_heading(heading) if heading else 0
        found += [Try(content_id("path", source, one), under, turn) for one in _paths(file, path)]
        alike = _alike(file.strip("/"))
        found += [
            Try(content_id(kind, of, alike), under, turn)
            for kind, of in (("file", source), ("name", source), ("name", ""))
        ]
    return list(dict.fromkeys(found))


def named_heading(named: str) -> int:
    """The key of a heading, as written there or as an address or a link's `#...` spells it.

    >>> named_heading("early-life") == named_heading("Works#Early life")
    True
    """
    return content_id(*_words(named.rpartition("#")[2]))


def file_title(path: str) -> str:
    """The name of a file as note programs show it.

    >>> file_title("notes/Ada Lovelace 0123456789abcdef0123456789abcdef.md")
    'Ada Lovelace'
    >>> file_title("pages/Machines___What%3F.md")
    'Machines/What?'
    """
    stem = _SUFFIX.sub("", path.rpartition("/")[2])
    return unquote(_NOTION_ID.sub("", stem).replace("___", "/"))


def _paths(target: str, start: str) -> Iterator[str]:
    if "://" in start:
        with suppress(ValueError):  # what is no address
            yield urljoin(start, target)
        return
    for folder in (dirname(start), ""):
        path = normpath(join(folder, target.lstrip("/")))
        yield path
        yield f"{path}.md"


def _file_names(path: str) -> Iterator[str]:
    """All names by which a link may call the file.

    >>> list(_file_names("pages/a/Plan.md"))
    ['pages/a/plan.md', 'pages/a/plan', 'a/plan.md', 'a/plan', 'plan.md', 'plan']
    >>> list(_file_names("Plan%3F 0123456789abcdef0123456789abcdef.md"))[-1]
    'plan?'
    """
    parts = path.split("/")
    for at in range(len(parts)):
        name = "/".join(parts[at:])
        yield _alike(name)
        stem = _SUFFIX.sub("", name)
        if stem != name:
            yield _alike(stem)
    title = file_title(path)
    if title != _SUFFIX.sub("", parts[-1]):
        yield _alike(title)


def _alike(name: str) -> str:
    """One spelling for names that differ in case, white space or Unicode form alone."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _words(text: str) -> list[str]:
    return _WORD.findall(_alike(text))
