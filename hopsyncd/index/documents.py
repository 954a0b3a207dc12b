"""Documents in the live index: where passages stand, what documents are called, and their links.

documents: revisions; `home` is the exact key of each, `modified` and `created` are in Unix time.
property: what each says of itself. document_key: what links may call each. placements: its passages
in order. called: its own names, with each of its first passages. links: those that stand in its
passages, each with the keys it tries in turn. link_ways: from which passage a link leads to which,
while it does: kept up to date as matches are, by looking again at the links that try a key of a
document that came or went.
"""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice, product

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Integers
from hopsyncd.index.links import Named, document_keys, tries
from hopsyncd.index.live_index import DEAD, NO_DATE, LiveIndex
from store.records import Link, PassageId, content_id

FIRST_PASSAGES = 4  # of a document: they have its names
_MAX_OF_PASSAGE = 32  # a passage that links to more is an index, and its first ones stand for it

Visible = Callable[[Integers], NDArray[np.bool_]]
"""Which of these documents a link may stand in or lead to."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A revision of a document; `id` is its row in the store.

    names: what links may call it besides its path. called: its names as keywords are spelled.
    placements: its passages in order, each with its links. modified_ms, created_ms: NO_DATE where
    it does not say. properties: what it says of itself, and its type.
    """

    id: int
    source: str
    path: str
    names: tuple[str, ...]
    called: tuple[str, ...]
    placements: tuple[tuple[PassageId, tuple[Link, ...]], ...]
    modified_ms: int = NO_DATE
    created_ms: int = NO_DATE
    properties: tuple[tuple[str, str], ...] = ()


def change_documents(
    index: LiveIndex, version: int, ended: Sequence[int], begun: Sequence[NewDocument]
) -> None:
    """From this version on, documents (rows in the store) are gone, and others are there."""
    gone = np.array([index.document_of.pop(id_) for id_ in ended], dtype=np.int64)
    index.end("documents", gone, version)
    came = _add(index, begun, version) if begun else np.empty(0, dtype=np.int64)
    _refresh_links(index, version, np.concatenate([gone, came]))


def _add(index: LiveIndex, new: Sequence[NewDocument], version: int) -> Integers:
    """Add documents, one at least, with all that is theirs; returns their rows."""
    sources = dict.fromkeys(one.source for one in new)
    index.sources += [source for source in sources if source not in index.sources]
    number_of = {source: number for number, source in enumerate(index.sources)}
    first = index.begin(
        "documents",
        id=[one.id for one in new],
        source=[number_of[one.source] for one in new],
        home=[content_id("path", one.source, one.path) for one in new],
        modified=[one.modified_ms for one in new],
        created=[one.created_ms for one in new],
        born=np.full(len(new), version),
        died=np.full(len(new), DEAD),
    )
    rows = np.arange(first, first + len(new))
    index.paths += [one.path for one in new]
    index.document_of.update(zip([one.id for one in new], rows.tolist(), strict=True))
    placed = [[passage for passage, _ in one.placements] for one in new]
    numbers = index.passages.add(_joined(placed))
    ordinal = _joined([range(len(one)) for one in placed])
    _append(index, "placements", _repeated(rows, placed), number=numbers, ordinal=ordinal)
    of_each = _parted(numbers, placed)
    _add_properties(index, rows, [one.properties for one in new])
    _add_keys(index, rows, new)
    _add_names(index, rows, [one.called for one in new], of_each)
    _add_links(index, rows, new, of_each)
    return rows


def _joined(parts: Iterable[Iterable[int]]) -> Integers:
    return np.array([*chain.from_iterable(parts)], dtype=np.int64)


def _repeated(rows: Integers, parts: Sequence[Sized]) -> Integers:
    """Each row as often as its part is long."""
    return np.repeat(rows, [len(part) for part in parts])


def _parted(numbers: Integers, parts: Sequence[Sized]) -> list[list[int]]:
    """The numbers, in parts of these lengths."""
    following = iter(numbers.tolist())
    return [[*islice(following, len(part))] for part in parts]


def _append(index: LiveIndex, table: str, document: Integers, **columns: Integers) -> None:
    """Append rows of these documents, and enter them where they are looked for."""
    first = index[table].append(document=document, **columns)
    rows = np.arange(first, first + len(document), dtype=np.int32)
    for name, keys in {**columns, "document": document}.items():
        if f"{table}_of_{name}" in index.postings:
            index.postings[f"{table}_of_{name}"].add(keys, rows)


def _add_properties(
    index: LiveIndex, documents: Integers, said: Sequence[Sequence[tuple[str, str]]]
) -> None:
    numbers = np.array(index.number_properties([*chain.from_iterable(said)]), dtype=np.int64)
    at = _repeated(documents, said).astype(np.int32)
    index["property"].append(document=at, property=numbers)
    index.postings["documents_of_property"].add(numbers, at)


def _add_keys(index: LiveIndex, documents: Integers, new: Sequence[NewDocument]) -> None:
    keys = [document_keys(Named(one.source, one.path, one.names)) for one in new]
    key, of = _joined(keys), _repeated(documents, keys)
    first = index["document_key"].append(key=key)
    rows = np.arange(first, first + len(key), dtype=np.int32)
    index.postings["keys_of_document"].add(of, rows)
    index.postings["documents_of_key"].add(key, of.astype(np.int32))


def _add_names(
    index: LiveIndex,
    documents: Integers,
    called: Sequence[Sequence[str]],
    numbers: Sequence[Sequence[int]],
) -> None:
    """The first passages of each document have all its names."""
    names = _parted(index.number_names([*chain.from_iterable(called)]), called)
    pairs = [
        [*product(dict.fromkeys(placed[:FIRST_PASSAGES]), named)]
        for placed, named in zip(numbers, names, strict=True)
    ]
    number, name = np.array([*chain.from_iterable(pairs)], dtype=np.int64).reshape(-1, 2).T
    _append(index, "called", _repeated(documents, pairs), number=number, name=name)


def _add_links(
    index: LiveIndex,
    documents: Integers,
    new: Sequence[NewDocument],
    numbers: Sequence[Sequence[int]],
) -> None:
    places = [
        (one, (document, number, ordinal, place), link)
        for document, one, placed in zip(documents.tolist(), new, numbers, strict=True)
        for ordinal, (number, (_, links)) in enumerate(zip(placed, one.placements, strict=True))
        for place, link in enumerate(links)
    ]
    tried = [tries(link.target, one.source, one.path) for one, _, link in places]
    every = [*chain.from_iterable(tried)]
    first = index["tries"].append(
        key=[one.key for one in every],
        heading=[one.heading for one in every],
        turn=[one.turn for one in every],
    )
    counts = np.array([len(one) for one in tried], dtype=np.int64)
    end = first + np.cumsum(counts)
    at = np.array([place for _, place, _ in places], dtype=np.int64).reshape(-1, 4).T
    document, number, ordinal, place = at
    row = index["links"].append(
        document=document,
        number=number,
        ordinal=ordinal,
        place=place,
        first_try=end - counts,
        end_try=end,
    )
    index.shown += [link.shown for _, _, link in places]
    rows = np.arange(row, row + len(places))
    keys = [{one.key for one in each} for each in tried]
    index.postings["links_of_key"].add(_joined(keys), _repeated(rows, keys))
    index.postings["links_of_number"].add(number, rows)
    index.postings["links_of_document"].add(document, rows)


def _refresh_links(index: LiveIndex, version: int, changed: Integers) -> None:
    died, rows = index["documents"]["died"], index["link_ways"]

    def at_head(documents: Integers) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = died[documents] == DEAD
        return held

    ended: list[int] = []
    begun: list[tuple[int, int, int]] = []
    for number in touched_by(index, changed).tolist():
        had = index.postings["ways_from"].of(number)
        now = dict(ways_of(index, number, at_head))
        for row in had[rows["died"][had] == DEAD].tolist():
            target = int(rows["target"][row])
            if now.get(target) == int(rows["link"][row]):
                del now[target]
            else:
                ended.append(row)
        begun += [(number, target, link) for target, link in now.items()]
    index.end("link_ways", np.array(ended, dtype=np.int64), version)
    new = np.array(begun, dtype=np.int64).reshape(-1, 3)
    count = len(new)
    first = index.begin(
        "link_ways",
        source=new[:, 0],
        target=new[:, 1],
        link=new[:, 2],
        born=np.full(count, version),
        died=np.full(count, DEAD),
    )
    at = np.arange(first, first + count, dtype=np.int32)
    index.postings["ways_from"].add(new[:, 0], at)
    index.postings["ways_to"].add(new[:, 1], at)


def touched_by(index: LiveIndex, changed: Integers) -> Integers:
    """The numbers of the passages whose links may lead elsewhere once these documents change."""
    keys, _ = index.postings["keys_of_document"].of_each(changed)
    tried = np.unique(index["document_key"]["key"][keys])
    by_key, _ = index.postings["links_of_key"].of_each(tried)
    own, _ = index.postings["links_of_document"].of_each(changed)
    return np.unique(index["links"]["number"][np.concatenate([by_key, own])]).astype(np.int64)


def ways_of(index: LiveIndex, number: int, visible: Visible) -> list[tuple[int, int]]:
    """Where the links of a passage lead, in the order in which they are written: the number of
    each target, and the first link to it."""
    links = index["links"]
    rows = index.postings["links_of_number"].of(number)
    rows = rows[visible(links["document"][rows].astype(np.int64))]
    ways: dict[int, int] = {}
    for row in sorted(rows.tolist(), key=lambda row: _written(index, row)):
        target = _target(index, row, visible)
        if target is not None and target != number and len(ways) < _MAX_OF_PASSAGE:
            ways.setdefault(target, row)
    return list(ways.items())


def _written(index: LiveIndex, link: int) -> tuple[str, str, int, int]:
    row = {name: int(index["links"][name][link]) for name in ("document", "ordinal", "place")}
    document = row["document"]
    source = index.sources[int(index["documents"]["source"][document])]
    return source, index.paths[document], row["ordinal"], row["place"]


def _target(index: LiveIndex, link: int, visible: Visible) -> int | None:
    """The number of the passage that a link leads to: the first one of the document it means, or
    the first one under the heading that it names."""
    found = _meant(index, link, visible)
    if found is None:
        return None
    document, heading = found
    placed = index.postings["placements_of_document"].of(document)
    numbers = index["placements"]["number"][placed].tolist()
    if heading:
        for number in numbers:
            if heading in _headings(index, number):
                return int(number)
    return int(numbers[0]) if numbers else None


def _headings(index: LiveIndex, number: int) -> Sequence[int]:
    entries = index.postings["entries_of_number"].of(number)
    if not len(entries):
        return ()
    columns, entry = index["entries"], int(entries[0])
    first, end = int(columns["first_heading"][entry]), int(columns["end_heading"][entry])
    keys: list[int] = index["heading"]["key"][first:end].tolist()
    return keys


def _meant(index: LiveIndex, link: int, visible: Visible) -> tuple[int, int] | None:
    """The document that a link means, and the key of the heading that it names there."""
    links, tried = index["links"], index["tries"]
    ambiguous = -1
    for row in range(int(links["first_try"][link]), int(links["end_try"][link])):
        turn = int(tried["turn"][row])
        if turn == ambiguous:
            continue
        documents = index.postings["documents_of_key"].of(int(tried["key"][row]))
        documents = documents[visible(documents.astype(np.int64))]
        if len(documents) == 1:
            return int(documents[0]), int(tried["heading"][row])
        if len(documents):
            ambiguous = turn
    return None
