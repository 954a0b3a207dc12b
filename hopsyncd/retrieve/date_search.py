"""Finds the passages that mention a day, in any spelling.

An ambiguous date such as 07.05.2025 counts only if other dates of its document, or its language,
show whether the day or the month comes first. Only visible passages of the document are used, so
hidden passages do not affect the result.
"""

import numpy as np

from hopsyncd.index.arrays import Flags, Integers
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.term_matches import look_up_terms
from hopsyncd.text.dates import (
    DAY_FIRST_LANGUAGE,
    DAY_IN_NAME,
    ORDERS,
    make_day_term,
    make_order_term,
)


def find_dated_rows(snapshot: Snapshot, day: str) -> Integers:
    """Find the visible passages that mention the day or whose file name contains it.

    Returns their rows, ascending.
    """
    terms = [make_day_term(day), *(make_day_term(day, order) for order in ORDERS)]
    certain, *unclear = (_find_term_rows(snapshot, term) for term in terms)
    parts = [certain, _find_rows_by_name(snapshot, day)]
    for is_day_first, rows in zip((True, False), unclear, strict=True):
        if len(rows):
            parts.append(rows[_has_order(snapshot, rows, is_day_first=is_day_first)])
    return np.unique(np.concatenate(parts))


def _find_term_rows(snapshot: Snapshot, term: str) -> Integers:
    return look_up_terms(snapshot, [term])[0].passage_rows.astype(np.int64)


def _has_order(snapshot: Snapshot, rows: Integers, *, is_day_first: bool) -> Flags:
    """Return a flag for each row: whether its document writes numeric dates in the given order."""
    visible = snapshot.statistics.visible
    document_of, count = visible.document_numbers, visible.document_count

    def count_passages(term: str) -> Integers:
        document_numbers = document_of[_find_term_rows(snapshot, term)]
        return np.bincount(document_numbers[document_numbers >= 0], minlength=count)

    day_first, month_first = (count_passages(make_order_term(order)) for order in ORDERS)
    is_told = (day_first > 0) != (month_first > 0)
    is_untold = (day_first == 0) & (month_first == 0)
    passages = np.diff(visible.document_starts)
    by_language = is_untold & (2 * count_passages(DAY_FIRST_LANGUAGE) > passages)
    order = (
        (is_told & (day_first > 0)) | by_language if is_day_first else is_told & (month_first > 0)
    )
    documents = document_of[rows]
    has_order: Flags = (documents >= 0) & order[np.maximum(documents, 0)]
    return has_order


def _find_rows_by_name(snapshot: Snapshot, day: str) -> Integers:
    """Find the visible passages of documents whose file names contain the day."""
    index, visible = snapshot.index, snapshot.statistics.visible
    number = index.find_property((DAY_IN_NAME, day))
    if number is None:
        return np.empty(0, dtype=np.int64)
    documents = index.postings.documents_by_property.find(number).astype(np.int64)
    documents = documents[documents < len(visible.documents)]
    documents = documents[visible.documents[documents]]
    rows, _ = index.postings.occurrences_by_document.find_all(documents)
    numbers = index.occurrences.passage_number[rows]
    numbers = numbers[numbers < len(visible.passage_rows)]
    passage_rows: Integers = visible.passage_rows[numbers].astype(np.int64)
    return np.unique(passage_rows[passage_rows >= 0])
