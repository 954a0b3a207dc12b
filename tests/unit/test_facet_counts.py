"""Facets are counted once for each snapshot."""

import gc
from typing import Any

import pytest

from hopsyncd.api import facets
from hopsyncd.api.facets import FacetCounts


class AnySnapshot:
    """Stands for a snapshot: it is only a key here."""


def test_a_snapshot_is_counted_once_and_forgotten_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count(head: Any, wanted: Any) -> Any:
        counted.append(id(head))
        return {"source": [len(counted)]}

    monkeypatch.setattr(facets, "count_facets", count)
    counts: Any = FacetCounts()
    first, second = AnySnapshot(), AnySnapshot()
    found = [counts.count(head, ()) for head in (first, first, second, first)]
    assert [one["source"] for one in found] == [[1], [1], [2], [1]]
    del first
    gc.collect()
    assert counts.count(AnySnapshot(), ()) == {"source": [3]}
