"""Links between passages, and which document a link means.

In this order, and never by guess: what two documents could be called means neither.

1. The link's own document, where the link names only a heading.
2. The path, from the folder of the link's document or from the top of its source.
3. The name of a file of the same source, with or without folders and suffix, as Obsidian, Logseq
   and Notion write file names.
4. A title, an alias or a Message-ID of the same source, then of any source; an address.

Worked example. Of people/Ada Lovelace.md, notes/Ada.md and old/Ada.md, `[[Ada Lovelace]]` and
`[[people/ada lovelace]]` mean the first; `[[Ada]]` means notes/Ada.md in the notes beside it, and
nothing in the top folder.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urljoin

import numpy as np
from numpy.typing import NDArray

from store.records import PassageId

Integers = NDArray[np.int64]
Linked = tuple[PassageId, PassageId, str]
"""A link from one passage to another, and what it shows."""

_MAX_OF_PASSAGE = 32  # a passage that links to more is an index, and its first ones stand for it


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """l links between passages, in columns, by source and target; no pair is there twice.

    source, target: (l,) positions among the passages. shown: the text of each. As ways, i < l is
    link i from source to target, l + i the same from target to source.
    """

    source: Integers
    target: Integers
    shown: tuple[str, ...]

    @property
    def start(self) -> Integers:
        """(2l,) where each way begins."""
        return np.concatenate([self.source, self.target])

    @property
    def end(self) -> Integers:
        """(2l,) where each way leads to."""
        return np.concatenate([self.target, self.source])


def links_of(written: Sequence[Linked], passage: Integers) -> Links:
    """Arrange links for the walk; `passage` are the ids of all passages, rising."""
    ends = np.array([row[:2] for row in written], dtype=np.int64).reshape(-1, 2)
    ways: dict[int, dict[int, str]] = {}
    for (source, target), row in zip(np.searchsorted(passage, ends).tolist(), written, strict=True):
        of_passage = ways.setdefault(source, {})
        if source != target and len(of_passage) < _MAX_OF_PASSAGE:
            of_passage.setdefault(target, row[2])
    rows = sorted(
        (start, end, shown) for start, ends in ways.items() for end, shown in ends.items()
    )
    return Links(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        tuple(row[2] for row in rows),
    )


_NOTION_ID = re.compile(r" [0-9a-f]{32}$")
_SUFFIX = re.compile(r"(?<=[^/])\.[A-Za-z]\w{0,7}$")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Named:
    """A document and what it may be called; `key` is its place among the documents."""

    key: int
    source: str
    path: str
    names: tuple[str, ...]


class Directory:
    """Finds documents by what links call them."""

    def __init__(self, documents: Iterable[Named]) -> None:
        self._paths: dict[tuple[str, str], int] = {}
        self._files: dict[tuple[str, str], int | None] = {}
        self._names: dict[tuple[str, str], int | None] = {}
        for document in documents:
            self._paths[document.source, document.path] = document.key
            for file in _file_names(document.path):
                _enter(self._files, (document.source, file), document.key)
            for name in map(_alike, document.names):
                _enter(self._names, (document.source, name), document.key)
                _enter(self._names, ("", name), document.key)
            if "://" in document.path:
                _enter(self._names, ("", _alike(document.path.rstrip("/"))), document.key)

    def find(self, target: str, start: Named) -> tuple[int | None, str]:
        """The key of the document that a link in `start` means, or None, and the heading named."""
        if target.startswith("#"):
            return start.key, target[1:]
        # Names may have a # too.
        for path, _, heading in ((target, "", ""), target.partition("#"), target.rpartition("#")):
            key = self._meant(path, start) if path else None
            if key is not None:
                return key, heading
        return None, ""

    def _meant(self, target: str, start: Named) -> int | None:
        for path in _paths(target, start.path):
            if (start.source, path) in self._paths:
                return self._paths[start.source, path]
        alike = _alike(target.strip("/"))
        for table, key in (
            (self._files, (start.source, alike)),
            (self._names, (start.source, alike)),
            (self._names, ("", alike)),
        ):
            if key in table:
                return table[key]
        return None


def file_title(path: str) -> str:
    """The name of a file as note programs show it.

    >>> file_title("notes/Ada Lovelace 0123456789abcdef0123456789abcdef.md")
    'Ada Lovelace'
    >>> file_title("pages/Machines___What%3F.md")
    'Machines/What?'
    """
    stem = _SUFFIX.sub("", path.rpartition("/")[2])
    return unquote(_NOTION_ID.sub("", stem).replace("___", "/"))


def is_heading(named: str, heading: str) -> bool:
    """Whether a link's `#...` names a heading, as written there or as an address spells it.

    >>> is_heading("early-life", "Early Life"), is_heading("Works#Early life", "Early life")
    (True, True)
    """
    return _words(named.rpartition("#")[2]) == _words(heading)


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


def _enter(table: dict[tuple[str, str], int | None], key: tuple[str, str], document: int) -> None:
    """Enter what a document is called; a second one makes it mean neither."""
    table[key] = document if table.get(key, document) == document else None


def _alike(name: str) -> str:
    """One spelling for names that differ in case, white space or Unicode form alone."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _words(text: str) -> list[str]:
    return _WORD.findall(_alike(text))
