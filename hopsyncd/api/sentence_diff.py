"""What changed in the text of documents, by sentence, in unified form; and a version in words."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from hopsyncd.answers.changed import ChangedText
from hopsyncd.formats.units import sentences
from store.sqlite.content import known_passages
from store.sqlite.database import Connection
from store.sqlite.history import renames_of
from store.sqlite.reads import document_at, documents_touched

_CONTEXT = 1  # sentences around a change
_MAX_SENTENCES = 4000  # of a document on either side; longer ones are only counted
_MAX_CHARACTERS = 500  # of a sentence
_MAX_DOCUMENTS = 1000  # of a version that are looked at to tell what it was about
_NAMED = 3  # documents of a kind; more are counted

Sentence = tuple[tuple[str, ...], str]
"""The headings above it, and its text in one line."""


def changed_texts(
    connection: Connection, old: int, new: int, documents: Sequence[tuple[str, str]]
) -> list[ChangedText]:
    """What changed in each of the documents (source name and path), which both versions have."""
    return [
        {
            "source": source,
            "document": path,
            "lines": unified(*(_text(connection, at, source, path) for at in (old, new))),
        }
        for source, path in documents
    ]


def _text(connection: Connection, version: int, source: str, path: str) -> list[Sentence]:
    found = document_at(connection, version, source, path)
    placements = found[1] if found else ()
    passages = known_passages(connection, {one.passage for one in placements})
    return [
        (passages[one.passage].heading, text)
        for one in placements
        if one.passage in passages
        for sentence in sentences(passages[one.passage].text)
        if (text := " ".join(sentence.split())[:_MAX_CHARACTERS])
    ]


def unified(old: Sequence[Sentence], new: Sequence[Sentence]) -> list[str]:
    """The lines of a diff: a sentence each, ` `, `-` or `+` before it, under `@@` and the headings.

    >>> was = [(("Ada",), "She wrote."), (("Ada",), "She died in 1852.")]
    >>> now = [(("Ada",), "She wrote."), (("Ada",), "She died young.")]
    >>> unified(was, now)
    ['@@ Ada', ' She wrote.', '-She died in 1852.', '+She died young.']
    """
    if max(len(old), len(new)) > _MAX_SENTENCES:
        return [f"@@ {len(old):,} sentences before, {len(new):,} now: too many to compare"]
    matcher = SequenceMatcher(None, [one[1] for one in old], [one[1] for one in new], False)
    lines = [
        line for group in matcher.get_grouped_opcodes(_CONTEXT) for line in _hunk(group, old, new)
    ]
    if lines or not (old or new):
        return lines
    for (was, _), (now, _) in zip(old, new, strict=True):
        if was != now:
            return [f"@@ {_heading(was)} is now {_heading(now)}, with the same text"]
    return ["@@ the same sentences, otherwise laid out or linked"]


def _hunk(
    group: Sequence[tuple[str, int, int, int, int]],
    old: Sequence[Sentence],
    new: Sequence[Sentence],
) -> Iterator[str]:
    begun = group[0]
    changed = next((one for one in group if one[0] != "equal"), begun)
    at = new[changed[3]][0] if changed[3] < changed[4] else old[changed[1]][0]
    yield f"@@ {_heading(at)}"
    for kind, old_from, old_to, new_from, new_to in group:
        if kind == "equal":
            yield from (f" {text}" for _, text in old[old_from:old_to])
            continue
        yield from (f"-{text}" for _, text in old[old_from:old_to])
        yield from (f"+{text}" for _, text in new[new_from:new_to])


def _heading(heading: Sequence[str]) -> str:
    return " > ".join(heading) or "(no heading)"


def version_about(connection: Connection, number: int, hidden: Collection[str]) -> str | None:
    """What a version did to which documents; None where they are too many, or no longer known."""
    touched = documents_touched(connection, number, hidden, _MAX_DOCUMENTS)
    if touched is None:
        return None
    ended, begun = touched
    gone = {key: content for key, content in ended.items() if key not in begun}
    come = {key: content for key, content in begun.items() if key not in ended}
    renamed = renames_of(gone, come)
    moved = {(one.source, path) for one in renamed for path in (one.was, one.path)}
    return about(
        {
            "changed": sorted(path for source, path in begun if (source, path) in ended),
            "renamed": [f"{one.was} -> {one.path}" for one in renamed],
            "added": sorted(path for source, path in come if (source, path) not in moved),
            "removed": sorted(path for source, path in gone if (source, path) not in moved),
        }
    )


def about(documents: Mapping[str, Sequence[str]]) -> str:
    """What a version was about: its documents by what became of them.

    >>> about({"changed": ["ada.md"], "added": ["a/1.md", "a/2.md", "a/3.md", "a/4.md"]})
    'changed ada.md; added 4 documents in a'
    >>> about({"renamed": ["rome.md -> roma.md"]}), about({})
    ('renamed rome.md -> roma.md', 'no document')
    """
    told = [f"{kind} {_names(paths)}" for kind, paths in documents.items() if paths]
    return "; ".join(told) or "no document"


def _names(paths: Sequence[str]) -> str:
    if len(paths) <= _NAMED:
        return ", ".join(paths)
    folders = [path.rpartition(" -> ")[2].split("/")[:-1] for path in paths]
    shared = 0
    while all(len(one) > shared for one in folders) and all(
        one[shared] == other[shared] for one, other in pairwise(folders)
    ):
        shared += 1
    where = "/".join(folders[0][:shared])
    return f"{len(paths):,} documents{f' in {where}' if where else ''}"
