"""Purges documents: removes them from every version, as if they had never been indexed.

No other operation rewrites history. Every kept version loses the document and its passages, except
passages that another document contained in that version. All matches from or to questions of the
lost passages are lost too. Past versions get no new edges: their counts, edge budgets and
thresholds are adjusted so that their other edges stay the same.

The rows are deleted in small transactions, and all versions are consistent after each of them. The
cost grows with the removed rows and the number of versions that had them. Then the bytes are erased
from the files. The request stays in the table `purging` until the purge is complete. So after a
crash the purge continues at the next start.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from store.contract import Connection
from store.exceptions import PurgeRefused
from store.gc import (
    Between,
    drop_sets,
    drop_unused,
    find_unused_sets,
    sweep,
    transaction_without_checks,
)
from store.losses import Losses, Span, ThresholdSearch
from store.records import ALIVE, EdgeThreshold, PassageId, QuestionId
from store.space import erase
from store.transactions import count_history_change, transaction

_REVISIONS_AT_ONCE, _PASSAGES_AT_ONCE = 200, 800  # deleted per transaction


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The result of a purge: the numbers of deleted revisions and passages, and of matches lost in
    past versions.

    `versions` are the kept versions that contained the document. `held_by` are the documents, as
    (source name, path), that share passages with it in a kept version, so the text of these
    passages is still stored. If `erased` is False, a reader prevented the WAL from being emptied,
    and the purge must be run again.
    """

    revisions: int
    passages: int
    matches: int
    versions: tuple[int, ...]
    held_by: tuple[tuple[str, str], ...]
    erased: bool


@dataclass(frozen=True, slots=True)
class _Revision:
    """A row of the table `document`: its id, its interval and the number of its passages."""

    id: int
    span: Span
    passages: int


@dataclass(frozen=True, slots=True)
class Purge:
    """A requested purge of a document, or of all documents that the source ever had."""

    source: int
    path: str = ""


def request_purge(connection: Connection, source: int, path: str, now_ms: int) -> Purge:
    """Request the purge of a document. The request survives a crash.

    From then on, scans skip the document's path (see `include_again`). Raises PurgeRefused if the
    database does not know the path.
    """
    _require_known(connection, source, path)
    with transaction(connection):
        for table in ("seen", "pin"):
            connection.execute(f"DELETE FROM {table} WHERE source = ? AND path = ?", [source, path])
        connection.execute(
            "INSERT INTO excluded VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [source, path, now_ms]
        )
        return _store_request(connection, Purge(source, path))


def request_source_purge(connection: Connection, source: int) -> Purge:
    """Request the purge of all documents that a source ever had. Unlike `request_purge`, this does
    not make later scans skip paths."""
    with transaction(connection):
        return _store_request(connection, Purge(source))


def _store_request(connection: Connection, request: Purge) -> Purge:
    connection.execute(
        "INSERT INTO purging VALUES (?, ?) ON CONFLICT DO NOTHING", [request.source, request.path]
    )
    return request


def list_pending_purges(connection: Connection) -> list[Purge]:
    return [Purge(*row) for row in connection.execute("SELECT * FROM purging ORDER BY 1, 2")]


def purge(connection: Connection, request: Purge, between: Between = lambda: None) -> PurgeResult:
    """Delete the requested documents from all versions, and erase their data from the database
    files.

    A passage stays in the versions where another document contains it. All content that no version
    uses is deleted too, because it may come from an earlier text of a document. `between` is called
    after each transaction. Raises PurgeRefused while one of the documents is in the newest version.
    """
    rows = "FROM document WHERE source = ?1 AND (?2 = '' OR path = ?2)"
    alive = connection.execute(
        f"SELECT path {rows} AND died = {ALIVE} LIMIT 1", [request.source, request.path]
    ).fetchone()
    if alive:
        raise PurgeRefused(
            f"Cannot purge {alive[0]}",
            "the document is in the newest version",
            "Delete the file and sync, or use `hopsyncd purge`, which removes the document first",
        )
    revisions = connection.execute(
        "SELECT id, born, died, (SELECT count(*) FROM placement WHERE document = document.id)"
        f" {rows} ORDER BY path, born",
        [request.source, request.path],
    )
    document_revisions = [_Revision(row[0], (row[1], row[2]), row[3]) for row in revisions]
    done = _purge(connection, document_revisions, between)
    if done.erased:
        with transaction(connection):
            connection.execute(
                "DELETE FROM purging WHERE source = ? AND path = ?", [request.source, request.path]
            )
    return done


def _purge(connection: Connection, revisions: Sequence[_Revision], between: Between) -> PurgeResult:
    """Delete these revisions, which must not be in force at the head."""
    sweep(connection, between)
    versions, passages, deleted_counts = set[int](), set[PassageId](), Counter[str]()
    thresholds = ThresholdSearch(connection)
    for part in _split_revisions(revisions):
        with transaction_without_checks(connection):
            count_history_change(connection)
            losses = Losses(connection)
            for revision in part:
                losses.count(losses.documents, revision.span)
            passage_ids = _delete_documents(connection, [revision.id for revision in part])
            shortened = _shorten_intervals(connection, passage_ids, losses)
            deleted_counts["matches"] += _shorten_matches(connection, shortened, losses)
            deleted_counts.update(drop_sets(connection, shortened))
            _correct_versions(connection, losses, thresholds)
        versions.update(losses.kept[losses.documents > 0].tolist())
        passages.update(passage_ids)
        between()
    deleted_counts.update(drop_unused(connection, find_unused_sets(connection, between), between))
    return PurgeResult(
        revisions=len(revisions),
        passages=deleted_counts["passages"],
        matches=deleted_counts["matches"],
        versions=tuple(sorted(versions)),
        held_by=_list_holders(connection, passages),
        erased=erase(connection, between),
    )


def _require_known(connection: Connection, source: int, path: str) -> None:
    known_rows = [
        connection.execute(
            f"SELECT 1 FROM {table} WHERE source = ? AND path = ?", [source, path]
        ).fetchone()
        for table in ("document", "seen", "pin", "excluded")
    ]
    if not any(known_rows):
        raise PurgeRefused(
            f"Cannot purge {path}",
            "the document was never indexed",
            "Copy the path from search results or `hopsyncd diff`",
        )


def _split_revisions(revisions: Sequence[_Revision]) -> Iterator[list[_Revision]]:
    """Split the revisions into lists that are each deleted in one transaction."""
    part: list[_Revision] = []
    passages = 0
    for revision in revisions:
        part.append(revision)
        passages += revision.passages
        if len(part) >= _REVISIONS_AT_ONCE or passages >= _PASSAGES_AT_ONCE:
            yield part
            part, passages = [], 0
    if part:
        yield part


def _delete_documents(connection: Connection, documents: Sequence[int]) -> list[PassageId]:
    """Delete the rows of these documents. Returns the passages that they contained."""
    rows = connection.execute(
        "SELECT DISTINCT passage FROM placement"
        f" WHERE document IN {connection.dialect.select_ids()}",
        [json.dumps(documents)],
    ).fetchall()
    ids = [(row_id,) for row_id in documents]
    connection.executemany("DELETE FROM placement WHERE document = ?", ids)
    connection.executemany("DELETE FROM document WHERE id = ?", ids)
    return [PassageId(row[0]) for row in rows]


def _shorten_intervals(
    connection: Connection, passages: Iterable[PassageId], losses: Losses
) -> list[int]:
    """Shorten the intervals of each passage to the versions in which a remaining document contains
    it.

    Returns the question sets whose intervals were shortened.
    """
    shortened: list[int] = []
    for passage in passages:
        spans = _read_spans(connection, passage)
        intervals = connection.execute(
            "SELECT l.id, l.born, l.died, l.question_set, p.words FROM life AS l"
            " JOIN passage AS p ON p.id = l.passage WHERE l.passage = ?",
            [passage],
        ).fetchall()
        for interval, born, died, question_set, words in intervals:
            left = _intersect((born, died), spans, losses)
            if losses.count(losses.passages, (born, died), left):
                losses.count(losses.words, (born, died), left, words)
                connection.execute("DELETE FROM life WHERE id = ?", [interval])
                connection.executemany(
                    "INSERT INTO life (passage, born, died, question_set) VALUES (?, ?, ?, ?)",
                    [(passage, *span, question_set) for span in left],
                )
                shortened.append(question_set)
    return shortened


def _read_spans(connection: Connection, passage: PassageId) -> list[Span]:
    """Return the spans of versions in which documents contain the passage, disjoint and in
    ascending order."""
    rows = connection.execute(
        "SELECT DISTINCT d.born, d.died FROM placement AS p JOIN document AS d ON d.id = p.document"
        " WHERE p.passage = ? ORDER BY d.born",
        [passage],
    )
    spans: list[Span] = []
    for born, died in rows:
        if spans and born <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], died)
        else:
            spans.append((born, died))
    return spans


def _intersect(span: Span, others: Iterable[Span], losses: Losses) -> list[Span]:
    """Return the intersections of a span with other spans, without those that contain no kept
    version."""
    parts = [(max(span[0], born), min(span[1], died)) for born, died in others]
    return [part for part in parts if losses.holds(part)]


def _shorten_matches(connection: Connection, sets: Sequence[int], losses: Losses) -> int:
    """Limit each match of these question sets to the versions that still have both its questions.

    Returns the number of lost matches. A match that leaves three versions counts three times.
    """
    intervals = _read_question_spans(connection, sets)
    rows = connection.execute(
        "SELECT question, born, died, target, similarity FROM match"
        f" WHERE question IN {connection.dialect.select_ids('?1')} UNION"
        " SELECT question, born, died, target, similarity FROM match"
        f" WHERE target IN {connection.dialect.select_ids('?1')}",
        [json.dumps([*intervals])],
    ).fetchall()
    for question, born, died, target, similarity in rows:
        spans: list[Span] = [(born, died)]
        for end in {question, target} & intervals.keys():
            spans = [part for span in spans for part in _intersect(span, intervals[end], losses)]
        losses.count_match((question, similarity), (born, died), spans)
        if spans == [(born, died)]:
            continue
        connection.execute("DELETE FROM match WHERE question = ? AND born = ?", [question, born])
        connection.executemany(
            "INSERT INTO match (question, born, died, target, similarity) VALUES (?, ?, ?, ?, ?)",
            [(question, *span, target, similarity) for span in spans],
        )
    return int(losses.matches.sum())


def _read_question_spans(connection: Connection, sets: Sequence[int]) -> dict[int, list[Span]]:
    """Return, for each question of these sets, the spans of versions in which it is in force,
    disjoint and in ascending order."""
    questions = connection.execute(
        "SELECT id, question_set FROM question"
        f" WHERE question_set IN {connection.dialect.select_ids()}",
        [json.dumps(sets)],
    ).fetchall()
    rows = connection.execute(
        "SELECT s.id, l.born, l.died FROM question_set AS s"
        " JOIN life AS l ON l.passage = s.passage AND l.question_set = s.id"
        f" WHERE s.id IN {connection.dialect.select_ids()} ORDER BY l.born",
        [json.dumps(sets)],
    )
    spans: dict[int, list[Span]] = {question_set: [] for question_set in sets}
    for question_set, *span in rows:
        spans[question_set].append((span[0], span[1]))
    return {question: spans[question_set] for question, question_set in questions}


def _correct_versions(connection: Connection, losses: Losses, thresholds: ThresholdSearch) -> None:
    """Subtract the losses from each version's counts. Find a new edge threshold for each version
    whose match at the threshold was removed."""
    lost = losses.documents | losses.passages | losses.matches
    matches, budget = losses.had_matches - losses.matches, losses.had_budget - losses.edges
    rows = []
    for position in np.flatnonzero(lost).tolist():
        number, edge_threshold = int(losses.kept[position]), None
        if losses.has_threshold[position] and budget[position] < matches[position]:
            edge_threshold = EdgeThreshold(
                float(losses.threshold_similarity[position]),
                QuestionId(int(losses.threshold_question[position])),
            )
            edge_threshold = (
                thresholds.find_last_admitted(number, edge_threshold)
                if losses.lost_threshold[position]
                else edge_threshold
            )
        counts = (losses.documents[position], losses.passages[position], losses.words[position])
        rows.append(
            (
                *(int(count) for count in (*counts, matches[position], budget[position])),
                edge_threshold.similarity if edge_threshold else None,
                edge_threshold.question if edge_threshold else None,
                number,
            )
        )
    connection.executemany(
        "UPDATE version SET documents = documents - ?, passages = passages - ?, words = words - ?,"
        " matches = ?, edge_budget = ?, cut_similarity = ?, cut_question = ? WHERE id = ?",
        rows,
    )


def _list_holders(
    connection: Connection, passages: Iterable[PassageId]
) -> tuple[tuple[str, str], ...]:
    rows = connection.execute(
        "SELECT DISTINCT s.name, d.path FROM placement AS p"
        " JOIN document AS d ON d.id = p.document JOIN source AS s ON s.id = d.source"
        f" WHERE p.passage IN {connection.dialect.select_ids()} ORDER BY s.name, d.path",
        [json.dumps(list(passages))],
    )
    return tuple((row[0], row[1]) for row in rows)
