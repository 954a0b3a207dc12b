"""Resolves links: finds the document and the passage to which a link leads.

The following rules are tried in order. An ambiguous link is not resolved: if two documents have the
same name, a link with that name leads to neither document.

1. The link's own document, if the link contains only a heading.
2. The path, from the folder of the link's document or from the top of its source.
3. The name of a file in the same source, with or without folders and suffix, in the way in which
   Obsidian, Logseq and Notion write file names.
4. A title, an alias or a Message-ID in the same source, then in any source; an address.

Each document has keys, and each link has a list of candidate keys. So the cost of resolving a link
depends only on the documents that share a key with it.

Example with the documents people/Ada Lovelace.md, notes/Ada.md and old/Ada.md: `[[Ada Lovelace]]`
and `[[people/ada lovelace]]` lead to the first document. In a note in the folder notes, `[[Ada]]`
leads to notes/Ada.md. In a note in the top folder, `[[Ada]]` leads to no document.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urljoin

import numpy as np

from hopsyncd.index.arrays import Flags, Integers, expand_ranges, mark_rows, take_flags
from hopsyncd.index.live_index import LiveIndex
from store.records import compute_content_id

# The links of a passage that are followed. A passage with more links is an index.
_MAX_LINKS = 32
_NOTION_ID = re.compile(r" [0-9a-f]{32}$")
_SUFFIX = re.compile(r"(?<=[^/])\.[A-Za-z]\w{0,7}$")
_WORD = re.compile(r"\w+")

IsVisible = Callable[[Integers], Flags]
"""Returns a flag for each document row: whether a link may be in the document or lead to it."""


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """A document and the names by which links may refer to it."""

    source: str
    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The keys of a document and of a heading (0: none) to which a link may lead.

    Candidates with the same `reading` interpret the text of the link in the same way. If a
    candidate is ambiguous, the other candidates with the same reading are skipped.
    """

    key: int
    heading_key: int
    reading: int


def list_document_keys(document: NamedDocument) -> list[int]:
    """Return the distinct keys of a document: the key of its path, which is unique, and the keys of
    its names.

    >>> keys = list_document_keys(NamedDocument("notes", "people/Ada.md", ("Countess",)))
    >>> compute_content_id("path", "notes", "people/Ada.md") in keys
    True
    >>> compute_content_id("name", "", "countess") in keys
    True
    """
    source, path = document.source, document.path
    keys = {compute_content_id("path", source, path): None}
    for file in _list_file_names(path):
        keys[compute_content_id("file", source, file)] = None
    for name in map(_normalise, document.names):
        keys[compute_content_id("name", source, name)] = None
        keys[compute_content_id("name", "", name)] = None
    if "://" in path:
        keys[compute_content_id("name", "", _normalise(path.rstrip("/")))] = None
    return list(keys)


def list_candidates(target: str, source: str, path: str) -> list[Candidate]:
    """Return the possible targets of a link to `target`, best first. The link is in the document at
    `path` of `source`."""
    if target.startswith("#"):
        return [
            Candidate(compute_content_id("path", source, path), compute_heading_key(target[1:]), 0)
        ]
    candidates: list[Candidate] = []
    # Names may also contain a #.
    for reading, (file, _, heading) in enumerate(
        ((target, "", ""), target.partition("#"), target.rpartition("#"))
    ):
        if not file:
            continue
        heading_id = compute_heading_key(heading) if heading else 0
        keys = [
            compute_content_id("path", source, full_path) for full_path in _list_paths(file, path)
        ]
        name = _normalise(file.strip("/"))
        keys += [
            compute_content_id("file", source, name),
            compute_content_id("name", source, name),
            compute_content_id("name", "", name),
        ]
        candidates += [Candidate(key, heading_id, reading) for key in keys]
    return list(dict.fromkeys(candidates))


def find_affected_passages(index: LiveIndex, documents: Integers) -> Integers:
    """Return the numbers of the passages with links whose target may change if these documents
    (rows) are added or ended."""
    rows, _ = index.postings.document_keys_by_document.find_all(documents)
    keys = np.unique(index.document_keys.key[rows])
    by_key, _ = index.postings.links_by_key.find_all(keys)
    in_them, _ = index.postings.links_by_document.find_all(documents)
    links = np.concatenate([by_key, in_them])
    return np.unique(index.links.passage_number[links]).astype(np.int64)


def find_passages_with_links(index: LiveIndex, documents: Integers, is_target: Flags) -> Integers:
    """Return the numbers of the passages in these documents that have a link to which one of the
    flagged documents is a possible target."""
    links, _ = index.postings.links_by_document.find_all(documents)
    starts, ends = index.links.candidate_start[links], index.links.candidate_end[links]
    rows, positions = expand_ranges(starts, ends)
    keys, key_numbers = np.unique(index.link_candidates.key[rows], return_inverse=True)
    targets, key_positions = index.postings.documents_by_key.find_all(keys)
    leads = mark_rows(len(keys), key_positions[take_flags(is_target, targets)])
    found = links[np.unique(positions[leads[key_numbers]])]
    return np.unique(index.links.passage_number[found]).astype(np.int64)


def resolve_links(index: LiveIndex, number: int, is_visible: IsVisible) -> list[tuple[int, int]]:
    """Resolve the links of the passage with this number in visible documents, in written order.

    Returns pairs of the number of a target passage and the row of the first link to it, for at most
    `_MAX_LINKS` other passages.
    """
    rows = index.postings.links_by_passage.find(number)
    rows = rows[is_visible(index.links.document_row[rows].astype(np.int64))]
    targets: dict[int, int] = {}
    for row in sorted(rows.tolist(), key=lambda row: _make_order_key(index, row)):
        target = _resolve_link(index, row, is_visible)
        if target is not None and target != number and len(targets) < _MAX_LINKS:
            targets.setdefault(target, row)
    return list(targets.items())


def _make_order_key(index: LiveIndex, link_row: int) -> tuple[str, str, int, int]:
    links, document = index.links, int(index.links.document_row[link_row])
    source = index.sources[int(index.documents.source[document])]
    ordinal, position = int(links.ordinal[link_row]), int(links.position[link_row])
    return source, index.document_paths[document], ordinal, position


def _resolve_link(index: LiveIndex, link_row: int, is_visible: IsVisible) -> int | None:
    """Return the number of the passage to which the link in row `link_row` leads, or None if the
    link cannot be resolved.

    The target is the first passage under the heading in the link, or else the first passage of the
    document.
    """
    found = _find_document(index, link_row, is_visible)
    if found is None:
        return None
    document, heading = found
    rows = index.postings.occurrences_by_document.find(document)
    numbers = index.occurrences.passage_number[rows].tolist()
    if heading:
        for number in numbers:
            if heading in _list_heading_keys(index, number):
                return int(number)
    return int(numbers[0]) if numbers else None


def _list_heading_keys(index: LiveIndex, number: int) -> Sequence[int]:
    rows = index.postings.passages_by_number.find(number)
    if not len(rows):
        return ()
    passages, row = index.passages, int(rows[0])
    start, end = int(passages.heading_start[row]), int(passages.heading_end[row])
    keys: list[int] = index.headings.key[start:end].tolist()
    return keys


def _find_document(
    index: LiveIndex, link_row: int, is_visible: IsVisible
) -> tuple[int, int] | None:
    """Return the row of the document to which a link leads, and the key of the heading in the link
    (0: none). Returns None if the link cannot be resolved."""
    links, candidates = index.links, index.link_candidates
    ambiguous = -1
    start, end = int(links.candidate_start[link_row]), int(links.candidate_end[link_row])
    for row in range(start, end):
        reading = int(candidates.reading[row])
        if reading == ambiguous:
            continue
        documents = index.postings.documents_by_key.find(int(candidates.key[row]))
        documents = documents[is_visible(documents.astype(np.int64))]
        if len(documents) == 1:
            return int(documents[0]), int(candidates.heading_key[row])
        if len(documents):
            ambiguous = reading
    return None


def compute_heading_key(heading: str) -> int:
    """Return the key of a heading. The heading may be written as in the document, in an address or
    in a link's `#...`.

    >>> compute_heading_key("early-life") == compute_heading_key("Works#Early life")
    True
    """
    return compute_content_id(*_list_words(heading.rpartition("#")[2]))


def find_file_title(path: str) -> str:
    """Return the name of a file as note-taking programs display it.

    >>> find_file_title("notes/Ada Lovelace 0123456789abcdef0123456789abcdef.md")
    'Ada Lovelace'
    >>> find_file_title("pages/Machines___What%3F.md")
    'Machines/What?'
    """
    stem = _SUFFIX.sub("", path.rpartition("/")[2])
    return unquote(_NOTION_ID.sub("", stem).replace("___", "/"))


def _list_paths(target: str, start: str) -> Iterator[str]:
    if "://" in start:
        with suppress(ValueError):  # characters that an address cannot contain
            yield urljoin(start, target)
        return
    for folder in (dirname(start), ""):
        path = normpath(join(folder, target.lstrip("/")))
        yield path
        yield f"{path}.md"


def _list_file_names(path: str) -> Iterator[str]:
    """Yield all names by which a link may refer to the file at `path`.

    >>> list(_list_file_names("pages/a/Plan.md"))
    ['pages/a/plan.md', 'pages/a/plan', 'a/plan.md', 'a/plan', 'plan.md', 'plan']
    >>> list(_list_file_names("Plan%3F 0123456789abcdef0123456789abcdef.md"))[-1]
    'plan?'
    """
    parts = path.split("/")
    for first in range(len(parts)):
        name = "/".join(parts[first:])
        yield _normalise(name)
        stem = _SUFFIX.sub("", name)
        if stem != name:
            yield _normalise(stem)
    title = find_file_title(path)
    if title != _SUFFIX.sub("", parts[-1]):
        yield _normalise(title)


def _normalise(name: str) -> str:
    """Convert names that differ only in case, white space or Unicode form to the same name."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _list_words(text: str) -> list[str]:
    return _WORD.findall(_normalise(text))
