"""Adds and ends documents in the live index, with their names, properties, passages and links.

The link edges at the head are updated incrementally, like matches. If a document is added or ended,
links that may lead to it are resolved again.
"""

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice, product

import numpy as np

from hopsyncd.index.arrays import Flags, Integers
from hopsyncd.index.links import (
    NamedDocument,
    find_affected_passages,
    list_candidates,
    list_document_keys,
    resolve_links,
)
from hopsyncd.index.live_index import IN_FORCE, NO_DATE, LiveIndex
from hopsyncd.index.tables import (
    DocumentKeyTable,
    DocumentNameTable,
    DocumentPropertyTable,
    DocumentTable,
    LinkCandidateTable,
    LinkEdgeTable,
    LinkTable,
    OccurrenceTable,
    to_int32,
    to_int64,
)
from store.records import Link, PassageId, compute_content_id

NAMED_PASSAGES = 4  # first passages of a document that count as having its names


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A revision of a document to be added. `id` is its row id in the database.

    `names` are the names, besides the path, by which links may refer to the document.
    `keyword_names` are the document's names as normalized keywords. `occurrences` are the passages
    in order, each with its links. `modified_ms` and `created_ms` are NO_DATE if the date is
    unknown. `properties` include the document's type.
    """

    id: int
    source: str
    path: str
    names: tuple[str, ...]
    keyword_names: tuple[str, ...]
    occurrences: tuple[tuple[PassageId, tuple[Link, ...]], ...]
    modified_ms: int = NO_DATE
    created_ms: int = NO_DATE
    properties: tuple[tuple[str, str], ...] = ()


def change_documents(
    index: LiveIndex, version: int, ended: Sequence[int], begun: Sequence[NewDocument]
) -> None:
    """At this version, end the documents `ended`, given by their row ids in the database, and begin
    the documents `begun`."""
    ended_rows = to_int64([index.document_row_of_id.pop(id_) for id_ in ended])
    index.end_documents(ended_rows, version)
    new_rows = _add(index, begun, version) if begun else np.empty(0, dtype=np.int64)
    _update_link_edges(index, version, np.concatenate([ended_rows, new_rows]))


def _add(index: LiveIndex, new: Sequence[NewDocument], version: int) -> Integers:
    """Add one or more documents with the rows of all their tables. Returns the document rows."""
    sources = dict.fromkeys(each.source for each in new)
    index.sources += [source for source in sources if source not in index.sources]
    source_numbers = {source: number for number, source in enumerate(index.sources)}
    first = index.begin_documents(
        DocumentTable(
            id=to_int64([each.id for each in new]),
            source=to_int32([source_numbers[each.source] for each in new]),
            path_key=to_int64([compute_content_id("path", each.source, each.path) for each in new]),
            modified_ms=to_int64([each.modified_ms for each in new]),
            created_ms=to_int64([each.created_ms for each in new]),
            born=np.full(len(new), version, dtype=np.int32),
            died=np.full(len(new), IN_FORCE, dtype=np.int32),
        )
    )
    rows = np.arange(first, first + len(new))
    index.document_paths += [each.path for each in new]
    index.document_row_of_id.update(zip([each.id for each in new], rows.tolist(), strict=True))
    passages = [[passage for passage, _ in each.occurrences] for each in new]
    numbers = index.passage_numbers.add(_flatten(passages))
    _add_occurrences(index, rows, passages, numbers)
    numbers_by_document = [*_split(numbers.tolist(), passages)]
    _add_properties(index, rows, [each.properties for each in new])
    _add_keys(index, rows, new)
    _add_names(index, rows, [each.keyword_names for each in new], numbers_by_document)
    _add_links(index, rows, new, numbers_by_document)
    return rows


def _flatten(parts: Iterable[Iterable[int]]) -> Integers:
    return np.array([*chain.from_iterable(parts)], dtype=np.int64)


def _repeat(rows: Integers, parts: Sequence[Sized]) -> Integers:
    return np.repeat(rows, [len(part) for part in parts])


def _split(numbers: Iterable[int], parts: Sequence[Sized]) -> Iterator[list[int]]:
    """Split the numbers into lists that have the same lengths as the `parts`. This is the inverse
    of `_flatten`."""
    remaining = iter(numbers)
    for part in parts:
        yield [*islice(remaining, len(part))]


def _add_occurrences(
    index: LiveIndex, documents: Integers, passages: Sequence[Sized], numbers: Integers
) -> None:
    document_rows = _repeat(documents, passages)
    start = len(index.occurrences)
    index.occurrences = index.occurrences.extend(
        OccurrenceTable(
            document_row=to_int32(document_rows),
            passage_number=to_int32(numbers),
            ordinal=to_int32(_flatten([range(len(part)) for part in passages])),
        )
    )
    rows = np.arange(start, start + len(numbers))
    index.postings.occurrences_by_document.add(document_rows, rows)


def _add_properties(
    index: LiveIndex, documents: Integers, properties: Sequence[Sequence[tuple[str, str]]]
) -> None:
    numbers = to_int64(index.number_properties([*chain.from_iterable(properties)]))
    document_rows = to_int32(_repeat(documents, properties))
    index.document_properties = index.document_properties.extend(
        DocumentPropertyTable(document_row=document_rows, property=to_int32(numbers))
    )
    index.postings.documents_by_property.add(numbers, document_rows)


def _add_keys(index: LiveIndex, documents: Integers, new: Sequence[NewDocument]) -> None:
    keys = [list_document_keys(NamedDocument(each.source, each.path, each.names)) for each in new]
    flat, document_rows = _flatten(keys), _repeat(documents, keys)
    start = len(index.document_keys)
    index.document_keys = index.document_keys.extend(DocumentKeyTable(key=flat))
    rows = np.arange(start, start + len(flat))
    index.postings.document_keys_by_document.add(document_rows, rows)
    index.postings.documents_by_key.add(flat, document_rows)


def _add_names(
    index: LiveIndex,
    documents: Integers,
    names: Sequence[Sequence[str]],
    passage_numbers: Sequence[Sequence[int]],
) -> None:
    """Add a row for each name of a document and each of the document's first passages."""
    name_numbers = _split(index.number_names([*chain.from_iterable(names)]).tolist(), names)
    pairs = [
        [*product(dict.fromkeys(passages[:NAMED_PASSAGES]), document_names)]
        for passages, document_names in zip(passage_numbers, name_numbers, strict=True)
    ]
    passages, numbers = to_int64([*chain.from_iterable(pairs)]).reshape(-1, 2).T
    start = len(index.document_names)
    index.document_names = index.document_names.extend(
        DocumentNameTable(
            document_row=to_int32(_repeat(documents, pairs)),
            passage_number=to_int32(passages),
            name=to_int32(numbers),
        )
    )
    rows = np.arange(start, start + len(numbers))
    index.postings.document_names_by_passage.add(passages, rows)
    index.postings.document_names_by_name.add(numbers, rows)


def _add_links(
    index: LiveIndex,
    documents: Integers,
    new: Sequence[NewDocument],
    passage_numbers: Sequence[Sequence[int]],
) -> None:
    links = [
        (each, (document, number, ordinal, position), link)
        for document, each, numbers in zip(documents.tolist(), new, passage_numbers, strict=True)
        for ordinal, (number, (_, written)) in enumerate(
            zip(numbers, each.occurrences, strict=True)
        )
        for position, link in enumerate(written)
    ]
    candidates = [list_candidates(link.target, each.source, each.path) for each, _, link in links]
    counts = np.array([len(part) for part in candidates], dtype=np.int64)
    ends = len(index.link_candidates) + np.cumsum(counts)
    flat = [*chain.from_iterable(candidates)]
    index.link_candidates = index.link_candidates.extend(
        LinkCandidateTable(
            key=to_int64([candidate.key for candidate in flat]),
            heading_key=to_int64([candidate.heading_key for candidate in flat]),
            reading=to_int32([candidate.reading for candidate in flat]),
        )
    )
    places = to_int64([place for _, place, _ in links]).reshape(-1, 4).T
    document_rows, numbers, ordinals, positions = places
    start = len(index.links)
    index.links = index.links.extend(
        LinkTable(
            document_row=to_int32(document_rows),
            passage_number=to_int32(numbers),
            ordinal=to_int32(ordinals),
            position=to_int32(positions),
            candidate_start=to_int32(ends - counts),
            candidate_end=to_int32(ends),
        )
    )
    index.link_texts += [link.text for _, _, link in links]
    rows = np.arange(start, start + len(links))
    keys = [{candidate.key for candidate in part} for part in candidates]
    index.postings.links_by_key.add(_flatten(keys), _repeat(rows, keys))
    index.postings.links_by_passage.add(numbers, rows)
    index.postings.links_by_document.add(document_rows, rows)


def _update_link_edges(index: LiveIndex, version: int, changed: Integers) -> None:
    """Update the link edges of the links in the changed documents, and of the links that may lead
    to these documents."""
    document_died, edges = index.documents.died, index.link_edges

    def is_current(documents: Integers) -> Flags:
        current: Flags = document_died[documents] == IN_FORCE
        return current

    ended: list[int] = []
    begun: list[tuple[int, int, int]] = []
    for number in find_affected_passages(index, changed).tolist():
        before = index.postings.link_edges_by_source.find(number)
        now = dict(resolve_links(index, number, is_current))
        for row in before[edges.died[before] == IN_FORCE].tolist():
            target = int(edges.target_passage[row])
            if now.get(target) == int(edges.link_row[row]):
                del now[target]
            else:
                ended.append(row)
        begun += [(number, target, link) for target, link in now.items()]
    index.end_link_edges(to_int64(ended), version)
    new = to_int64(begun).reshape(-1, 3)
    index.begin_link_edges(
        LinkEdgeTable(
            source_passage=to_int32(new[:, 0]),
            target_passage=to_int32(new[:, 1]),
            link_row=to_int32(new[:, 2]),
            born=np.full(len(new), version, dtype=np.int32),
            died=np.full(len(new), IN_FORCE, dtype=np.int32),
        )
    )
