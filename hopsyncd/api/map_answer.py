"""Builds the answer of the map endpoint: a version's map, with the names and titles of
documents."""

import threading

import numpy as np

from hopsyncd.index.arrays import AnyIntegers, Integers
from hopsyncd.index.filters import Filter
from hopsyncd.index.live_index import NO_DATE
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.responses.images import MapAnswer, MapDocuments
from hopsyncd.retrieve.collection_map import CollectionMap, make_map
from hopsyncd.retrieve.map_layout import SPACING
from hopsyncd.retrieve.results import format_id
from store.contract import Connection
from store.reads import read_titles
from store.records import PassageId
from store.visibility import Mask

_KEPT = 3
_NO_MAP: MapAnswer = {
    "version": 0,
    "degraded": [],
    "total": 0,
    "spacing": SPACING,
    "sources": [],
    "groups": [],
    "documents": {
        "x": [],
        "y": [],
        "group": [],
        "rank": [],
        "source": [],
        "document": [],
        "title": [],
        "passage": [],
        "modified": [],
    },
    "joints": {"start": [], "end": [], "link": []},
}


class MapMaker:
    """Computes maps one at a time, because each takes up to a second, and caches the last maps."""

    def __init__(self) -> None:
        self._answers = dict[tuple[int, Mask, Filter], tuple[list[int], MapAnswer]]()
        self._lock = threading.Lock()

    def make(
        self, connection: Connection, snapshot: Snapshot | None, filter_: Filter = ()
    ) -> MapAnswer:
        """Return the map of the snapshot's visible documents, from the cache if possible.

        `filter_` is the filter that narrowed the snapshot.
        """
        if snapshot is None:
            return _NO_MAP
        key = (snapshot.version.id, snapshot.hidden, filter_)
        with self._lock:
            documents, answer = self._answers.get(key, ([], None))
            # A purge may have removed documents of a cached map.
            if answer is None or len(read_titles(connection, documents)) < len(documents):
                document_map = make_map(connection, snapshot)
                documents = [] if document_map is None else _store_rows(snapshot, document_map)
                answer = _NO_MAP if document_map is None else _make_answer(snapshot, document_map)
                answer = {**answer, "version": snapshot.version.id}
            other_answers = [
                (other, other_answer)
                for other, other_answer in self._answers.items()
                if other != key
            ]
            self._answers = {key: (documents, answer), **dict(other_answers[: _KEPT - 1])}
            return answer


def _store_rows(snapshot: Snapshot, collection_map: CollectionMap) -> list[int]:
    rows: list[int] = snapshot.index.documents.id[collection_map.documents].tolist()
    return rows


def _make_answer(snapshot: Snapshot, collection_map: CollectionMap) -> MapAnswer:
    layout = collection_map.layout
    sizes = np.bincount(layout.groups).tolist()
    numbers = np.unique(snapshot.index.documents.source[collection_map.documents])
    return {
        "version": snapshot.version.id,
        "degraded": [],
        "spacing": SPACING,
        "total": int(np.count_nonzero(snapshot.statistics.visible.documents)),
        "sources": [snapshot.index.sources[number] for number in numbers.tolist()],
        "groups": [
            {"names": [*names], "documents": size, "x": x, "y": y, "radius": radius}
            for names, size, (x, y), radius in zip(
                collection_map.names,
                sizes,
                np.round(layout.centres, 1).tolist(),
                np.round(layout.radii, 1).tolist(),
                strict=True,
            )
        ],
        "documents": _describe(snapshot, collection_map, numbers),
        "joints": {
            "start": collection_map.starts.tolist(),
            "end": collection_map.ends.tolist(),
            "link": collection_map.is_link.tolist(),
        },
    }


def _describe(
    snapshot: Snapshot, collection_map: CollectionMap, numbers: AnyIntegers
) -> MapDocuments:
    index, rows, layout = snapshot.index, collection_map.documents, collection_map.layout
    passages = [
        PassageId(id_) for id_ in snapshot.passage_ids[collection_map.first_passages].tolist()
    ]
    x, y = np.round(layout.places, 1).T.tolist()
    order = np.lexsort((-layout.centrality, layout.groups))
    ranks = np.empty(len(rows), dtype=np.int64)
    first = np.searchsorted(layout.groups[order], layout.groups[order])
    ranks[order] = np.arange(len(rows)) - first
    return {
        "x": x,
        "y": y,
        "group": layout.groups.tolist(),
        "rank": ranks.tolist(),
        "source": np.searchsorted(numbers, index.documents.source[rows]).tolist(),
        "document": [index.document_paths[row] for row in rows.tolist()],
        "title": [*collection_map.titles],
        "passage": [*map(format_id, passages)],
        "modified": _format_days(index.documents.modified_ms[rows]),
    }


def _format_days(modified_ms: Integers) -> list[str | None]:
    """Return the UTC day of each time in Unix milliseconds, or None for NO_DATE."""
    days = modified_ms.astype("datetime64[ms]").astype("datetime64[D]").astype(str).tolist()
    dated = (modified_ms != NO_DATE).tolist()
    return [day if is_dated else None for day, is_dated in zip(days, dated, strict=True)]
