"""Deep checks of rows: intervals, counts, edge thresholds, digests and derived rows.

The invariants hold at every kept version. Rows of versions between two kept versions may have been
collected, so the checks compare intervals by the kept versions that they cover.

Example: of the versions up to 9, only 4 and 9 are kept. A document contained a passage in [3, 5),
and a later revision, which was collected, contained it in [5, 7). The passage's interval is [3, 7).
The remaining revision and the passage are both in force at version 4 and not at 9, so they agree.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from store.content import build_full_text
from store.contract import Connection
from store.digests import compute_stored_document_digest, compute_stored_set_digest
from store.records import (
    GRID,
    REBUILD,
    RESTORE,
    Direction,
    Finding,
    Passage,
    PassageId,
    SetId,
    Version,
    compute_question_id,
    compute_set_id,
    count_words,
    name_rows,
)
from store.versions import list_kept_versions, read_head, read_version

INTERVAL_KEYS = {"document": "source, path", "life": "passage", "match": "question"}
_WEIGHTS = {
    "documents": "SELECT born, died, 1 FROM document",
    "passages": "SELECT born, died, 1 FROM life",
    "words": "SELECT l.born, l.died, p.words FROM life AS l JOIN passage AS p ON p.id = l.passage",
    "matches": "SELECT born, died, 1 FROM match",
}
_HELD = (
    "SELECT p.passage, d.born, d.died FROM placement AS p JOIN document AS d ON d.id = p.document"
    " ORDER BY 1, 2"
)
_END_OUTSIDE = """
    SELECT m.question, m.born, m.died, q.id, q.direction FROM match AS m
    JOIN question AS q ON q.id = m.{end} JOIN question_set AS s ON s.id = q.question_set
    WHERE (q.direction <> {direction} OR NOT EXISTS (
        SELECT 1 FROM life AS l WHERE l.passage = s.passage AND l.question_set = s.id
        AND l.born <= m.born AND m.died <= l.died))
    AND EXISTS (SELECT 1 FROM version AS v
                WHERE v.collected_ms IS NULL AND m.born <= v.id AND v.id < m.died)
"""
_OF_ITSELF = """
    SELECT m.question, m.born, qs.passage FROM match AS m
    JOIN question AS q ON q.id = m.question JOIN question_set AS qs ON qs.id = q.question_set
    JOIN question AS t ON t.id = m.target JOIN question_set AS ts ON ts.id = t.question_set
    WHERE qs.passage = ts.passage
"""

Ranges = dict[int, list[tuple[int, int]]]


def _check_no_overlaps(connection: Connection) -> Iterator[Finding]:
    for table, key in INTERVAL_KEYS.items():
        rows = connection.execute(
            f"SELECT {key}, born, before FROM (SELECT {key}, born, max(died) OVER"
            f" (PARTITION BY {key} ORDER BY born ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
            f" AS before FROM {table}) AS t WHERE before > born"
        )
        for *columns, born, before in rows:
            name = ", ".join(str(part) for part in columns)
            yield Finding(
                "each key has at most one row at any version",
                f"{name_rows(table)} {name}",
                f"a row begins at version {born}, before another row of the key ends at {before}",
                RESTORE,
            )


def _check_passages_follow_documents(connection: Connection) -> Iterator[Finding]:
    numbers = list_kept_versions(connection)
    intervals = _merge_ranges(
        numbers, connection.execute("SELECT passage, born, died FROM life ORDER BY 1, 2")
    )
    containing = _merge_ranges(numbers, connection.execute(_HELD))
    for passage in sorted(intervals.keys() | containing.keys()):
        if intervals.get(passage) != containing.get(passage):
            yield Finding(
                "a passage is in force exactly while a document contains it",
                f"passage interval {passage}",
                "the passage is in force in"
                f" {_format_versions(numbers, intervals.get(passage, []))},"
                " but a document contains it in"
                f" {_format_versions(numbers, containing.get(passage, []))}",
                RESTORE,
            )


def _merge_ranges(numbers: list[int], rows: Iterable[tuple[int, int, int]]) -> Ranges:
    """Convert the (passage, born, died) rows to merged half-open ranges of indexes into `numbers`,
    for each passage.

    Rows must be ordered by birth.
    """
    ranges: Ranges = defaultdict(list)
    for passage, born, died in rows:
        first, last = bisect_left(numbers, born), bisect_left(numbers, died)
        if first >= last:
            continue
        passage_ranges = ranges[passage]
        if passage_ranges and first <= passage_ranges[-1][1]:
            passage_ranges[-1] = (passage_ranges[-1][0], max(passage_ranges[-1][1], last))
        else:
            passage_ranges.append((first, last))
    return dict(ranges)


def _format_versions(numbers: list[int], ranges: list[tuple[int, int]]) -> str:
    texts = (f"{numbers[first]} to {numbers[last - 1]}" for first, last in ranges)
    return ("versions " + ", ".join(texts)) if ranges else "no version"


def _check_intervals_have_their_questions(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT l.id, l.passage, s.passage FROM life AS l"
        " JOIN question_set AS s ON s.id = l.question_set WHERE s.passage <> l.passage"
    )
    for interval, passage, other in rows:
        yield Finding(
            "a passage interval has the questions of that passage",
            f"passage interval {interval}",
            f"the interval belongs to passage {passage}, but its questions to passage {other}",
            RESTORE,
        )
    newest = read_head(connection)
    strangers = connection.execute(
        "SELECT l.id, s.recipe FROM life AS l JOIN question_set AS s ON s.id = l.question_set"
        " WHERE l.born <= ?1 AND ?1 < l.died AND s.recipe <> ?2",
        [newest.id, newest.generation] if newest else [0, 0],
    )
    for interval, generation in strangers:
        yield Finding(
            "passages at the head have the head's generation settings",
            f"passage interval {interval}",
            f"the passage has the generation settings {generation}",
            RESTORE,
        )


def _check_matches_within_passages(connection: Connection) -> Iterator[Finding]:
    for end, direction in (("question", 1), ("target", 0)):
        rows = connection.execute(_END_OUTSIDE.format(end=end, direction=direction))
        for question, born, died, joined, of_direction in rows:
            yield Finding(
                "a match joins an outgoing to an incoming question while both are in force",
                f"match {question}, {born}",
                f"the {end} {joined} (direction {of_direction}) is not in force from version {born}"
                f" to version {died - 1}",
                REBUILD,
            )
    for question, born, passage in connection.execute(_OF_ITSELF):
        yield Finding(
            "a match leads to another passage",
            f"match {question}, {born}",
            f"the match leads from passage {passage} to itself",
            REBUILD,
        )


def _check_counts(connection: Connection) -> Iterator[Finding]:
    numbers = list_kept_versions(connection)
    versions = [read_version(connection, number) for number in numbers]
    for name, sql in _WEIGHTS.items():
        counts_in_force = _sum_weights_in_force(numbers, connection.execute(sql).fetchall())
        for counted, count in zip(versions, counts_in_force.tolist(), strict=True):
            if getattr(counted, name) != count:
                yield Finding(
                    "a version's counts equal its rows in force",
                    f"version {counted.id}",
                    f"the version counts {getattr(counted, name)} {name}, but {count} are in force",
                    REBUILD if counted is versions[-1] else RESTORE,
                )


def _sum_weights_in_force(
    numbers: list[int], rows: list[tuple[int, int, int]]
) -> NDArray[np.int64]:
    """Return the total weight of the (born, died, weight) rows in force at each version in
    `numbers`.
    """
    steps = np.zeros(len(numbers) + 1, dtype=np.int64)
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    np.add.at(steps, np.searchsorted(numbers, columns[:, 0]), columns[:, 2])
    np.add.at(steps, np.searchsorted(numbers, columns[:, 1]), -columns[:, 2])
    sums: NDArray[np.int64] = np.cumsum(steps)[:-1]
    return sums


def _check_edge_thresholds(connection: Connection) -> Iterator[Finding]:
    """Check all edge thresholds in one pass, applying the changes from each version to the next."""
    rows = connection.execute(
        "SELECT question, born, died, similarity FROM match ORDER BY similarity DESC, question"
    ).fetchall()
    question, born, died = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
    similarity = np.array([row[3] for row in rows], dtype=np.float64)
    numbers = list_kept_versions(connection)
    newest = read_head(connection)
    ranking = _Ranking(question, similarity)
    begins, ends = _group_by_version(numbers, born), _group_by_version(numbers, died)
    for index, number in enumerate(numbers):
        ranking.change(ends[index], begins[index])
        checked = read_version(connection, number)
        fault = ranking.describe_threshold_fault(checked)
        if fault:
            yield Finding(
                "the edge threshold admits the number of matches in the edge budget",
                f"version {number}",
                f"{fault}; the budget is {checked.edge_budget}",
                REBUILD if checked == newest else RESTORE,
            )


def _group_by_version(numbers: list[int], events: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return, for each version in `numbers`, the indexes of the events that happened after the
    previous version and up to this version."""
    order = np.argsort(events, kind="stable")
    bounds = np.searchsorted(events[order], numbers, side="right")
    return np.split(order, bounds)[: len(numbers)]


class _Ranking:
    """Ranks all matches, best first, and counts the matches within the edge threshold of one
    version at a time.

    The first `_position` matches in the ranking are within the threshold, and `_admitted` of them
    are in force. Moving the threshold reads only the matches that it passes. Counting again would
    read all matches.
    """

    def __init__(self, question: NDArray[np.int64], similarity: NDArray[np.float64]) -> None:
        self._question, self._falling = question, -similarity
        self._in_force = np.zeros(len(question), dtype=np.int32)
        self._count = self._position = self._admitted = 0

    def change(self, ended: NDArray[np.int64], begun: NDArray[np.int64]) -> None:
        """Move to the next version, given the matches that ended and began. A match that began and
        ended between the two versions has no effect.
        """
        for places, by in ((begun, 1), (ended, -1)):
            self._in_force[places] += by
            self._count += by * len(places)
            self._admitted += by * int(np.count_nonzero(places < self._position))

    def describe_threshold_fault(self, version: Version) -> str | None:
        """Describe the error in a version's edge threshold, or return None if the threshold is
        correct.
        """
        if version.edge_threshold is None:
            few = version.edge_budget < self._count
            return f"there is no edge threshold for {self._count} matches" if few else None
        first, last = (
            int(np.searchsorted(self._falling, -version.edge_threshold.similarity, side=side))
            for side in ("left", "right")
        )
        tied = self._question[first:last]
        self._move(
            first + int(np.searchsorted(tied, version.edge_threshold.question, side="right"))
        )
        if self._admitted != version.edge_budget or self._admitted >= self._count:
            return f"the edge threshold admits {self._admitted} of {self._count} matches"
        is_last = tied[: self._position - first] == version.edge_threshold.question
        if self._admitted and not self._in_force[first : self._position][is_last].any():
            return "no match in force is at the edge threshold"
        return None

    def _move(self, target: int) -> None:
        low, high = sorted((self._position, target))
        passed = int(np.count_nonzero(self._in_force[low:high]))
        self._admitted += passed if target > self._position else -passed
        self._position = target


GRAPH_CHECKS = (
    _check_no_overlaps,
    _check_passages_follow_documents,
    _check_intervals_have_their_questions,
    _check_matches_within_passages,
    _check_counts,
    _check_edge_thresholds,
)


def _check_passages(connection: Connection) -> Iterator[Finding]:
    for row_id, heading, text, words in connection.execute(
        "SELECT id, heading, text, words FROM passage"
    ):
        passage = Passage(tuple(json.loads(heading)), text)
        where = f"passage {row_id}"
        if passage.id != row_id:
            yield Finding(
                "a passage's id is the hash of its text", where, "the hash differs", RESTORE
            )
        counted = count_words(build_full_text(passage))
        if counted != words:
            yield Finding(
                "a passage's word count is the number of its words",
                where,
                f"the stored count is {words}, but the passage has {counted} words",
                REBUILD,
            )


def _check_sets(connection: Connection) -> Iterator[Finding]:
    for row_id, passage, name, provisional, dimensions, vectors, digest in connection.execute(
        "SELECT s.id, s.passage, r.name, s.provisional, r.dimensions, s.vectors, s.digest"
        " FROM question_set AS s JOIN recipe AS r ON r.id = s.recipe"
    ):
        where = f"question set {row_id}"
        if compute_set_id(PassageId(passage), name, provisional=bool(provisional)) != row_id:
            yield Finding(
                "a set's id is the hash of its passage and generation settings",
                where,
                "the hash differs",
                RESTORE,
            )
        if compute_stored_set_digest(connection, row_id, vectors) != digest:
            yield Finding(
                "questions and vectors have their stored digest",
                where,
                "the digest differs",
                RESTORE,
            )
        yield from _check_vectors(where, vectors, dimensions)
        yield from _check_questions(connection, row_id, len(vectors) // (2 * dimensions))


def _check_vectors(where: str, blob: bytes, dimensions: int) -> Iterator[Finding]:
    if not blob or len(blob) % (2 * dimensions):
        yield Finding(
            "the bytes of vectors are complete rows",
            where,
            f"{len(blob)} bytes cannot be divided into rows of {2 * dimensions} bytes",
            RESTORE,
        )
        return
    rows = np.frombuffer(blob, dtype="<i2").reshape(-1, dimensions).astype(np.float64)
    norms = np.linalg.norm(rows, axis=1)
    # Rounding moves each component by at most one half.
    off = (norms != 0) & (np.abs(norms - GRID) > np.sqrt(dimensions) / 2)
    for row in np.flatnonzero(off).tolist():
        yield Finding(
            f"vectors have the length {GRID} or 0",
            where,
            f"row {row} has {norms[row]:.1f}",
            RESTORE,
        )


def _check_questions(connection: Connection, of_set: int, rows: int) -> Iterator[Finding]:
    for row_id, direction, ordinal, keywords, vector_row in connection.execute(
        "SELECT id, direction, ordinal, keywords, vector_row FROM question WHERE question_set = ?",
        [of_set],
    ):
        where = f"question {row_id}"
        if compute_question_id(SetId(of_set), Direction(direction), ordinal) != row_id:
            yield Finding(
                "a question's id is the hash of its set and place",
                where,
                "the hash differs",
                RESTORE,
            )
        if not 0 <= vector_row < rows:
            yield Finding(
                "every question has a vector",
                where,
                f"the vectors have no row {vector_row}",
                RESTORE,
            )
        names = json.loads(keywords)
        if names != sorted(set(names)):
            yield Finding("keywords are sorted and distinct", where, f"{keywords}", RESTORE)


def _check_documents(connection: Connection) -> Iterator[Finding]:
    for row_id, digest, *columns in connection.execute(
        "SELECT id, digest, source, path, content, media_type, names, origin, properties"
        " FROM document"
    ):
        if compute_stored_document_digest(connection, row_id, tuple(columns)) != digest:
            yield Finding(
                "a document and its occurrences have their stored digest",
                f"document {row_id} ({columns[1]})",
                "the digest differs",
                RESTORE,
            )


CONTENT_CHECKS = (_check_passages, _check_sets, _check_documents)
