"""Purging: removing a document from every version, as if it had never been indexed.

Purging is the only operation that rewrites history. Every kept version loses the document, its
passages unless another document held them then, and all matches from or to their questions. A past
version finds no other edges in their place. Its counts, its edge budget and its cut are adjusted,
so that its other edges stay as they were.

One transaction removes the rows; then their bytes are erased from the files. After a kill between
the two, run the purge again to finish it.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from store.exceptions import PurgeRefused
from store.records import ALIVE, Cut, PassageId, QuestionId
from store.sqlite.acknowledged import count_rewrite
from store.sqlite.database import Connection, transaction
from store.sqlite.gc import drop_sets, sweep, unchecked, unheld_sets
from store.sqlite.search import put_vector, recipes
from store.sqlite.sources import forget_cursor, rows_under
from store.sqlite.space import erase
from store.sqlite.versions import kept_versions, version

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """What a purge removed: revisions of the document, passages, and matches in past versions.

    `versions` are the kept versions that had the document. `held_by` are the documents, as (source
    name, path), that hold some of its passages in a kept version, so that text is still stored.
    `erased` is False if a reader kept the WAL from being emptied: run the purge again.
    """

    revisions: int
    passages: int
    matches: int
    versions: tuple[int, ...]
    held_by: tuple[tuple[str, str], ...]
    erased: bool


@dataclass(frozen=True, slots=True)
class _Losses:
    """What each kept version lost, by its number; `edges` are the matches within its cut."""

    documents: Counter[int] = field(default_factory=Counter)
    passages: Counter[int] = field(default_factory=Counter)
    words: Counter[int] = field(default_factory=Counter)
    matches: Counter[int] = field(default_factory=Counter)
    edges: Counter[int] = field(default_factory=Counter)


def purge(connection: Connection, source: int, path: str, now_ms: int) -> PurgeResult:
    """Remove the document from all versions, content, indexes and records, and from the files.

    Passages that another document holds stay in the versions where it does. All content that no
    version ever held is deleted too, as some of it may come from an earlier text of the document.
    The path is excluded from now on (see `include_again`). Raises PurgeRefused while the document
    is at the head, or if nothing is known of it.
    """
    _require_gone(connection, source, path)

    def forget() -> None:
        _forget(connection, source, path, now_ms)

    return _purge(connection, _revisions(connection, source, path), forget)


def purge_source(connection: Connection, source: int) -> PurgeResult:
    """As purge, for all documents that a source ever had. Call `forget_source` first.

    Excludes no further paths. Raises PurgeRefused while one of the documents is at the head.
    """
    alive = connection.execute(
        f"SELECT path FROM document WHERE source = ? AND died = {ALIVE} LIMIT 1", [source]
    ).fetchone()
    if alive:
        raise _in_head(alive[0])
    return _purge(connection, _revisions(connection, source))


def _purge(
    connection: Connection,
    revisions: Sequence[tuple[int, Span]],
    forget: Callable[[], None] = lambda: None,
) -> PurgeResult:
    """Remove these revisions, none of them at the head; `forget` deletes their scan records."""
    sweep(connection)
    with unchecked(connection):
        count_rewrite(connection)
        kept = kept_versions(connection)
        losses = _Losses()
        losses.documents.update(_versions_in([span for _, span in revisions], kept))
        passages = _take_documents(connection, [row_id for row_id, _ in revisions])
        shortened = _shorten_lives(connection, passages, kept, losses)
        _cut_matches(connection, shortened, kept, losses)
        forget()
        gone = drop_sets(connection, unheld_sets(connection))
        _correct_versions(connection, losses)
        held_by = _holders(connection, passages)
    return PurgeResult(
        revisions=len(revisions),
        passages=gone["passages"],
        matches=losses.matches.total(),
        versions=tuple(sorted(losses.documents)),
        held_by=held_by,
        erased=erase(connection),
    )


def excluded_paths(
    connection: Connection, source: int, under: Collection[str] | None = None
) -> set[str]:
    """The items that scans pass over because they were purged."""
    select = "SELECT t.path FROM excluded"
    return {row[0] for row in rows_under(connection, select, source, under)}


def include_again(connection: Connection, source: int, path: str) -> bool:
    """Let the next scan index a purged item like any other; False if it was not excluded."""
    with transaction(connection):
        gone = connection.execute(
            "DELETE FROM excluded WHERE source = ? AND path = ?", [source, path]
        )
        forget_cursor(connection, source)
    return bool(gone.rowcount)


def _require_gone(connection: Connection, source: int, path: str) -> None:
    known = [
        connection.execute(
            f"SELECT 1 FROM {table} WHERE source = ? AND path = ?", [source, path]
        ).fetchone()
        for table in ("document", "seen", "pin", "excluded")
    ]
    if not any(known):
        raise PurgeRefused(
            f"Cannot purge {path}",
            "no version has it and no scan saw it",
            "Write its path as answers and `hopsyncd diff` do; gc deletes what has expired",
        )
    alive = connection.execute(
        f"SELECT 1 FROM document WHERE source = ? AND path = ? AND died = {ALIVE}", [source, path]
    ).fetchone()
    if alive:
        raise _in_head(path)


def _in_head(path: str) -> PurgeRefused:
    return PurgeRefused(
        f"Cannot purge {path}",
        "it is in the newest version",
        "Commit a version without it first",
    )


def _revisions(
    connection: Connection, source: int, path: str | None = None
) -> list[tuple[int, Span]]:
    """The revisions of a document of the source, or of all its documents."""
    rows = connection.execute(
        "SELECT id, born, died FROM document WHERE source = ?1 AND path = coalesce(?2, path)",
        [source, path],
    )
    return [(row[0], (row[1], row[2])) for row in rows]


def _versions_in(spans: Iterable[Span], kept: Sequence[int]) -> list[int]:
    """The kept versions in the spans, once for each span that contains the version."""
    return [number for born, died in spans for number in kept if born <= number < died]


def _take_documents(connection: Connection, documents: Sequence[int]) -> list[PassageId]:
    """Delete the documents' rows; returns the passages that they held."""
    rows = connection.execute(
        "SELECT DISTINCT passage FROM placement WHERE document IN (SELECT value FROM json_each(?))",
        [json.dumps(documents)],
    ).fetchall()
    ids = [(row_id,) for row_id in documents]
    connection.executemany("DELETE FROM placement WHERE document = ?", ids)
    connection.executemany("DELETE FROM document WHERE id = ?", ids)
    return [PassageId(row[0]) for row in rows]


def _shorten_lives(
    connection: Connection, passages: Iterable[PassageId], kept: Sequence[int], losses: _Losses
) -> list[int]:
    """Cut each passage's intervals to when a remaining document holds it.

    Returns the question sets of the intervals that became shorter.
    """
    shortened: list[int] = []
    for passage in passages:
        spans = _spans(connection, passage)
        words = connection.execute("SELECT words FROM passage WHERE id = ?", [passage]).fetchone()[
            0
        ]
        lives = connection.execute(
            "SELECT id, born, died, question_set FROM life WHERE passage = ?", [passage]
        ).fetchall()
        for life, born, died, question_set in lives:
            left = _within((born, died), spans, kept)
            missing = set(_versions_in([(born, died)], kept)) - set(_versions_in(left, kept))
            if not missing:
                continue
            _replace_life(connection, (life, passage, question_set), left)
            shortened.append(question_set)
            losses.passages.update(missing)
            losses.words.update(dict.fromkeys(missing, words))
    return shortened


def _spans(connection: Connection, passage: PassageId) -> list[Span]:
    """When documents hold the passage, as disjoint spans in rising order."""
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


def _within(span: Span, others: Iterable[Span], kept: Sequence[int]) -> list[Span]:
    """The parts of a span inside the others, without those that contain no kept version.

    >>> _within((2, 9), [(1, 4), (6, 7), (8, 20)], [3, 6, 10])
    [(2, 4), (6, 7)]
    """
    parts = [(max(span[0], born), min(span[1], died)) for born, died in others]
    return [part for part in parts if _versions_in([part], kept)]


def _replace_life(
    connection: Connection, life: tuple[int, PassageId, int], left: Sequence[Span]
) -> None:
    row_id, passage, question_set = life
    for recipe in recipes(connection):
        connection.execute(f"DELETE FROM passage_vector_{recipe} WHERE life = ?", [row_id])
    connection.execute("DELETE FROM life WHERE id = ?", [row_id])
    for born, died in left:
        made = connection.execute(
            "INSERT INTO life (passage, born, died, question_set) VALUES (?, ?, ?, ?)",
            [passage, born, died, question_set],
        )
        put_vector(connection, int(made.lastrowid or 0))


def _cut_matches(
    connection: Connection, sets: Sequence[int], kept: Sequence[int], losses: _Losses
) -> None:
    """Cut each match from or to these question sets to when both its passages are in force."""
    questions = connection.execute(
        "SELECT id FROM question WHERE question_set IN (SELECT value FROM json_each(?))",
        [json.dumps(sets)],
    )
    wanted = json.dumps([row[0] for row in questions])
    cuts = {number: version(connection, number).cut for number in kept}
    rows = connection.execute(
        "SELECT question, born, died, target, similarity FROM match"
        " WHERE question IN (SELECT value FROM json_each(?1))"
        " OR target IN (SELECT value FROM json_each(?1))",
        [wanted],
    ).fetchall()
    for question, born, died, target, similarity in rows:
        spans: list[Span] = [(born, died)]
        for end in (question, target):
            lives = _lives_of(connection, end)
            spans = [part for span in spans for part in _within(span, lives, kept)]
        if spans == [(born, died)]:
            continue
        connection.execute("DELETE FROM match WHERE question = ? AND born = ?", [question, born])
        connection.executemany(
            "INSERT INTO match (question, born, died, target, similarity) VALUES (?, ?, ?, ?, ?)",
            [(question, *span, target, similarity) for span in spans],
        )
        for number in set(_versions_in([(born, died)], kept)) - set(_versions_in(spans, kept)):
            losses.matches[number] += 1
            losses.edges[number] += _admits(cuts[number], question, similarity)


def _lives_of(connection: Connection, question: QuestionId) -> list[Span]:
    """When the question is in force, as disjoint spans in rising order."""
    rows = connection.execute(
        "SELECT l.born, l.died FROM question AS q JOIN question_set AS s ON s.id = q.question_set"
        " JOIN life AS l ON l.passage = s.passage AND l.question_set = s.id"
        " WHERE q.id = ? ORDER BY l.born",
        [question],
    )
    return [(row[0], row[1]) for row in rows]


def _admits(cut: Cut | None, question: QuestionId, similarity: float) -> bool:
    return cut is None or (-similarity, question) <= (-cut.similarity, cut.question)


def _forget(connection: Connection, source: int, path: str, now_ms: int) -> None:
    for table in ("seen", "pin"):
        connection.execute(f"DELETE FROM {table} WHERE source = ? AND path = ?", [source, path])
    connection.execute("INSERT OR IGNORE INTO excluded VALUES (?, ?, ?)", [source, path, now_ms])


def _correct_versions(connection: Connection, losses: _Losses) -> None:
    """Subtract from the counts of each version what it lost."""
    for number in sorted(losses.documents.keys() | losses.passages.keys() | losses.matches.keys()):
        old = version(connection, number)
        matches = old.matches - losses.matches[number]
        budget = old.edge_budget - (losses.edges[number] if old.cut else 0)
        cut = _last_admitted(connection, number, budget) if budget < matches else None
        connection.execute(
            "UPDATE version SET documents = documents - ?, passages = passages - ?,"
            " words = words - ?, matches = ?, edge_budget = ?, cut_similarity = ?,"
            " cut_question = ? WHERE id = ?",
            [
                losses.documents[number],
                losses.passages[number],
                losses.words[number],
                matches,
                budget,
                cut.similarity if cut else None,
                cut.question if cut else None,
                number,
            ],
        )


def _last_admitted(connection: Connection, number: int, budget: int) -> Cut:
    if budget == 0:
        return Cut(math.inf, QuestionId(-1))
    row = connection.execute(
        "SELECT similarity, question FROM match WHERE born <= ?1 AND ?1 < died"
        " ORDER BY similarity DESC, question LIMIT 1 OFFSET ?2 - 1",
        [number, budget],
    ).fetchone()
    return Cut(row[0], QuestionId(row[1]))


def _holders(connection: Connection, passages: Iterable[PassageId]) -> tuple[tuple[str, str], ...]:
    rows = connection.execute(
        "SELECT DISTINCT s.name, d.path FROM placement AS p"
        " JOIN document AS d ON d.id = p.document JOIN source AS s ON s.id = d.source"
        " WHERE p.passage IN (SELECT value FROM json_each(?)) ORDER BY s.name, d.path",
        [json.dumps(list(passages))],
    )
    return tuple((row[0], row[1]) for row in rows)
