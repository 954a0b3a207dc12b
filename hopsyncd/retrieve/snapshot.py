"""What is served: one version, its graph, names and links, with or without hidden sources.

Nothing of this is stored, so a file that is renamed costs no question. A name that many documents
have, or that says nothing, is none.

Nothing of a hidden passage is left: it is no vertex, no end of an edge and in no statistic. What
was matched with it looks for another match among the visible, and links mean what they mean among
the visible documents; so the graph is the one that an index without these sources has, and an
answer can tell nothing of what is hidden.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hopsyncd.index.edge_budget import edge_budget
from hopsyncd.index.links import Directory, Linked, Named, file_title, is_heading
from hopsyncd.index.matching import MergeIndex
from hopsyncd.index.names import Called
from hopsyncd.index.view import GraphView, view_of
from hopsyncd.models.keywords import STOP_WORDS, normalise
from hopsyncd.retrieve.bm25 import WordIndex
from store.records import PassageId, QuestionId, Version
from store.sqlite.content import sets_at, sets_by_id
from store.sqlite.database import Connection
from store.sqlite.history import Diff, Edge
from store.sqlite.reads import homes_at, matches_at, words_at
from store.sqlite.visible import (
    HeadedPassage,
    links_at,
    named_documents_at,
    opening_passages_at,
    passages_of,
    read_names,
    visible_documents,
    visible_sets,
)

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


def linked_passages(
    connection: Connection, version: int, hidden: Collection[str] = ()
) -> list[Linked]:
    """From which passage a link leads to which, and what it shows, in the order they are written.

    A link leads to the first passage of the document it means, or to the first one under the
    heading that it names. One that means no document, or might mean two, is left out. Documents of
    `hidden` sources have no links, are meant by none and make none ambiguous.
    """
    placed = links_at(connection, version, hidden)
    if not placed:
        return []
    documents = {
        one.id: Named(one.id, one.source, one.path, one.names)
        for one in named_documents_at(connection, version, hidden)
    }
    directory = Directory(documents.values())
    found = [(one, *directory.find(one.link.target, documents[one.document])) for one in placed]
    passages = passages_of(connection, {key for _, key, _ in found if key is not None})
    return [
        (one.passage, target, one.link.shown)
        for one, key, heading in found
        if key is not None
        for target in _first(passages.get(key, ()), heading)
    ]


def _first(passages: Sequence[HeadedPassage], heading: str) -> Iterator[PassageId]:
    """The passage that a link leads to; none where its document has no text."""
    under = (
        one.passage for one in passages if any(is_heading(heading, part) for part in one.heading)
    )
    first = next(under, None) if heading else None
    if first is not None or passages:
        yield first if first is not None else passages[0].passage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The served version and its graph, without what only the `hidden` sources hold."""

    version: Version
    view: GraphView
    words: WordIndex
    hidden: frozenset[str] = frozenset()


def head_of(connection: Connection, version: Version, index: MergeIndex) -> Snapshot:
    """The version as a reader needs it, from the index that the writer keeps of it."""
    return Snapshot(
        version,
        view_of(
            index,
            version.edge_budget,
            linked_passages(connection, version.id),
            called_passages(connection, version.id),
            homes_at(connection, version.id),
        ),
        WordIndex(*words_at(connection, version.id)),
    )


def load_snapshot(connection: Connection, version: Version, dimensions: int) -> Snapshot:
    """The same from the store alone."""
    index = MergeIndex(dimensions)
    matches = matches_at(connection, version.id)
    index.load(
        sets_at(connection, version.id), matches.question, matches.target, matches.similarity
    )
    return head_of(connection, version, index)


def restricted_snapshot(
    connection: Connection,
    version: Version,
    hidden: frozenset[str],
    dimensions: int,
    budget_factor: float,
) -> Snapshot:
    """The version without what only the hidden sources hold; its counts are of the rest."""
    index = _visible_index(connection, version, hidden, dimensions)
    passages, words = words_at(connection, version.id)
    visible = np.isin(passages, list(index.first_row))
    passages, words = passages[visible], words[visible]
    budget = edge_budget(len(passages), budget_factor)
    seen = replace(
        version,
        documents=visible_documents(connection, version.id, hidden),
        passages=len(passages),
        words=int(words.sum()),
        matches=len(index.ranking),
        edge_budget=budget,
        cut=index.ranking.cut(budget),
        counters={},
    )
    linked = linked_passages(connection, version.id, hidden)
    called = called_passages(connection, version.id, hidden)
    homes = homes_at(connection, version.id, hidden)
    view = view_of(index, budget, linked, called, homes)
    return Snapshot(seen, view, WordIndex(passages, words), hidden)


def _visible_index(
    connection: Connection, version: Version, hidden: frozenset[str], dimensions: int
) -> MergeIndex:
    sets = list(sets_by_id(connection, visible_sets(connection, version.id, hidden)))
    questions = np.array([one.id for each in sets for one in each.questions], dtype=np.int64)
    stored = matches_at(connection, version.id)
    kept = np.isin(stored.question, questions) & np.isin(stored.target, questions)
    index = MergeIndex(dimensions)
    index.load(sets, stored.question[kept], stored.target[kept], stored.similarity[kept])
    index.change([], [])  # matches those that are without
    return index


def restricted_diff(found: Diff, old: Snapshot, new: Snapshot) -> Diff:
    """What differs between two versions that both lack the same sources."""
    was, now = _edges(old), _edges(new)
    lived, live = _passages(old), _passages(new)

    def seen(documents: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(one for one in documents if one[0] not in new.hidden)

    return Diff(
        documents_added=seen(found.documents_added),
        documents_removed=seen(found.documents_removed),
        documents_renamed=tuple(
            one for one in found.documents_renamed if one.source not in new.hidden
        ),
        documents_changed=seen(found.documents_changed),
        passages_added=tuple(sorted(live - lived)),
        passages_removed=tuple(sorted(lived - live)),
        edges_added=tuple(Edge(*edge) for edge in sorted(now - was)),
        edges_removed=tuple(Edge(*edge) for edge in sorted(was - now)),
    )


def _passages(head: Snapshot) -> set[PassageId]:
    return {PassageId(id_) for id_ in head.view.passage.tolist()}


def _edges(head: Snapshot) -> set[tuple[QuestionId, QuestionId]]:
    pairs = zip(head.view.question.tolist(), head.view.answer.tolist(), strict=True)
    return {(QuestionId(asked), QuestionId(answer)) for asked, answer in pairs}
