"""Counts the documents of a version by source, type, folder, tag, author and month."""

from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from hopsyncd.api.version_log import format_time
from hopsyncd.index.arrays import Integers
from hopsyncd.index.filters import Condition, Filter
from hopsyncd.index.live_index import NO_DATE
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.responses.results import Facets, FacetValue, MonthCount
from store.records import compute_content_id

_MOST_VALUES = 40  # Only the most frequent values of a facet are listed.


class FacetCounts:
    """Counts the facets of snapshots, and caches the counts. Thread-safe."""

    def __init__(self) -> None:
        self._counted: WeakKeyDictionary[Snapshot, Facets] = WeakKeyDictionary()
        self._lock = Lock()

    def count(self, head: Snapshot, filter_: Filter) -> Facets:
        """Count the facets of a snapshot. `filter_` is the filter that narrowed the snapshot."""
        with self._lock:
            facets = self._counted.get(head)
        if facets is None:
            facets = count_facets(head, filter_)
            with self._lock:
                self._counted[head] = facets
        return facets


def count_facets(head: Snapshot, filter_: Filter) -> Facets:
    """Count the visible documents of a snapshot by source, type, folder, tag, author and month.
    `filter_` is the filter that narrowed the snapshot.

    A document has one source, type, folder and author, and any number of tags. Only folders
    directly below the filter's folder are counted.
    """
    index, visible = head.index, head.statistics.visible.documents
    rows = np.flatnonzero(visible)
    by_source = np.bincount(index.documents.source[rows], minlength=len(index.sources))
    properties = _count_properties(head)
    return {
        "source": _list_values(
            "source", dict(zip(index.sources, by_source.tolist(), strict=False))
        ),
        "type": _list_values("type", properties["type"]),
        "folder": _list_values("path", _count_folders(head, rows, filter_)),
        "tag": _list_values("tag", properties["tag"]),
        "author": _list_values("author", properties["author"]),
        "month": _count_months(index.documents.modified_ms[rows]),
    }


def read_modified_times(head: Snapshot, documents: Sequence[str]) -> list[str | None]:
    """Return when each document, given as SOURCE/PATH, was last modified, or None if the document
    is not visible."""
    index, times = head.index, list[str | None]()
    visible = np.flatnonzero(head.statistics.visible.documents)
    keys = index.documents.path_key[visible]
    for document in documents:
        source, _, path = document.partition("/")
        rows = visible[keys == compute_content_id("path", source, path)]
        at_ms = int(index.documents.modified_ms[rows[0]]) if len(rows) else NO_DATE
        times.append(None if at_ms == NO_DATE else format_time(at_ms))
    return times


def _count_properties(head: Snapshot) -> dict[str, Counter[str]]:
    """Count the visible documents of each type, tag and author."""
    index, visible = head.index, head.statistics.visible.documents
    table = index.document_properties
    in_version = table.document_row < len(visible)
    visible_properties = table.property[in_version][visible[table.document_row[in_version]]]
    counts = np.bincount(visible_properties)
    counters = {"type": Counter[str](), "tag": Counter[str](), "author": Counter[str]()}
    for number in np.flatnonzero(counts).tolist():
        name, value = index.properties[number]
        if name == "type":
            value = value.partition(" ")[0]
        if name in counters and value:
            counters[name][value] += int(counts[number])
    return counters


def _count_folders(head: Snapshot, rows: Integers, filter_: Filter) -> Counter[str]:
    """Count the documents in each folder directly below the filter's folder."""
    chosen = [
        condition.value
        for condition in filter_
        if condition.key == "path" and not condition.is_excluded
    ]
    above = chosen[-1].rstrip("/") + "/" if len(chosen) == 1 else ""
    counts = Counter[str]()
    for row in rows.tolist():
        path = head.index.document_paths[row]
        if not path.casefold().startswith(above.casefold()):
            continue
        folder, slash, _ = path[len(above) :].partition("/")
        if slash:
            counts[f"{above}{folder}/"] += 1
    return counts


def _count_months(modified_ms: Integers) -> list[MonthCount]:
    """Count the documents last modified in each month, in order. Empty months are left out."""
    dated = modified_ms[modified_ms != NO_DATE]
    months = dated.astype("datetime64[ms]").astype("datetime64[M]")
    distinct, counts = np.unique(months, return_counts=True)
    return [
        {"month": str(month), "documents": int(count)}
        for month, count in zip(distinct, counts, strict=True)
    ]


def _list_values(key: str, counts: dict[str, int] | Counter[str]) -> list[FacetValue]:
    """List up to 40 values of a facet, most frequent first, each with its filter and number of
    documents."""
    values: Iterable[tuple[str, int]] = ((value, count) for value, count in counts.items() if count)
    ordered = sorted(values, key=lambda pair: (-pair[1], pair[0].casefold(), pair[0]))
    return [
        {"value": value, "filter": str(Condition(key, value)), "documents": count}
        for value, count in ordered[:_MOST_VALUES]
    ]
