"""Stores immutable content: passages, question sets and vectors. Content is expensive to compute,
so it is never computed twice.

Content is written in a separate transaction, before the version that uses it. If the process
crashes between the two, the next sync finds the content by its id and does not compute it again.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count, groupby

import numpy as np

from store.contract import Connection
from store.digests import QUESTION_COLUMNS, compute_set_digest
from store.exceptions import ContentConflict
from store.records import (
    Direction,
    GenerationConfig,
    Passage,
    PassageId,
    Question,
    QuestionId,
    QuestionSet,
    SetId,
    Vectors,
    count_words,
)
from store.transactions import INTERNAL_COUNTERS, transaction

_SETS_AT_ONCE = 1000  # read together: sorting all of them by SQL would copy their vectors
_DIRECTIONS = tuple(Direction)
_SETS = """
    SELECT s.id, s.passage, s.vectors, s.provisional, r.dimensions FROM question_set AS s
    JOIN recipe AS r ON r.id = s.recipe
    WHERE s.id IN {ids} ORDER BY s.id
"""
_QUESTIONS = """
    SELECT q.question_set, q.id, q.direction, q.text, q.keywords, q.vector_row FROM question AS q
    WHERE q.question_set IN {ids}
    ORDER BY q.question_set, q.direction, q.ordinal
"""


def register_generation(connection: Connection, generation: GenerationConfig) -> int:
    """Return the row id of these generation settings. New settings are stored first."""
    known_row = find_generation_row(connection, generation.name)
    if known_row is not None:
        return known_row
    with transaction(connection):
        row = connection.execute(
            "INSERT INTO recipe (name, encoder, dimensions) VALUES (?, ?, ?) RETURNING id",
            [generation.name, generation.encoder, generation.dimensions],
        ).fetchone()
    return int(row[0])


def put_probe(connection: Connection, row_id: int, probe: Vectors) -> None:
    """Store an encoder's probe for the settings with this row id, unless a probe is stored.

    The probe is a (2, d) array: the vector of a fixed probe text, and the centre that is subtracted
    from vectors.
    """
    blob = probe.astype("<i2").tobytes()
    with transaction(connection):
        connection.execute(
            "UPDATE recipe SET probe = ? WHERE id = ? AND probe IS NULL", [blob, row_id]
        )


def find_probe(connection: Connection, encoder: str) -> Vectors | None:
    """Return the stored probe of an encoder, or None if there is none. The probe is the array given
    to `put_probe`."""
    row = connection.execute(
        "SELECT probe FROM recipe WHERE encoder = ? AND probe IS NOT NULL ORDER BY id", [encoder]
    ).fetchone()
    return np.frombuffer(row[0], dtype="<i2").astype(np.int16).reshape(2, -1) if row else None


def find_generation_row(connection: Connection, name: str) -> int | None:
    """Return the row id of the settings with this name, or None if they were never stored."""
    row = connection.execute("SELECT id FROM recipe WHERE name = ?", [name]).fetchone()
    return int(row[0]) if row else None


def get_generation(connection: Connection, row_id: int) -> GenerationConfig:
    """Return the settings with this row id. The row must exist."""
    row = connection.execute(
        "SELECT name, encoder, dimensions FROM recipe WHERE id = ?", [row_id]
    ).fetchone()
    return GenerationConfig(*row)


def list_encoders(connection: Connection) -> list[str]:
    """Return the names of the encoders used by any kept version."""
    rows = connection.execute(
        "SELECT DISTINCT r.encoder FROM version AS v JOIN recipe AS r ON r.id = v.recipe"
        " WHERE v.collected_ms IS NULL ORDER BY r.encoder"
    )
    return [str(row[0]) for row in rows]


def read_passages(connection: Connection, ids: Iterable[PassageId]) -> dict[PassageId, Passage]:
    """Return the stored passages with these ids. Unknown ids are left out."""
    rows = connection.execute(
        f"SELECT id, heading, text FROM passage WHERE id IN {connection.dialect.select_ids()}",
        [json.dumps(list(ids))],
    )
    return {PassageId(row[0]): Passage(_decode_heading(row[1]), row[2]) for row in rows}


@lru_cache(maxsize=1 << 12)
def _decode_heading(column: str) -> tuple[str, ...]:
    """Decode a heading path. Passages with equal heading paths share one tuple."""
    return tuple(json.loads(column))


def find_stored_passages(connection: Connection, ids: Iterable[PassageId]) -> set[PassageId]:
    """Return the given ids for which a passage is stored."""
    return {PassageId(id_) for id_ in _find_ids(connection, "passage", ids)}


def find_stored_sets(connection: Connection, ids: Iterable[SetId]) -> set[SetId]:
    """Return the given ids for which a question set is stored."""
    return {SetId(id_) for id_ in _find_ids(connection, "question_set", ids)}


def _find_ids(connection: Connection, table: str, ids: Iterable[int]) -> list[int]:
    sql = f"SELECT id FROM {table} WHERE id IN {connection.dialect.select_ids()}"
    return [row[0] for row in connection.execute(sql, [json.dumps(list(ids))])]


def find_sets_of_encoder(connection: Connection, ids: Sequence[SetId], encoder: str) -> list[SetId]:
    """Return the given ids whose question set has vectors of this encoder, in ascending order."""
    rows = connection.execute(
        "SELECT s.id FROM question_set AS s JOIN recipe AS r ON r.id = s.recipe"
        f" WHERE r.encoder = ?1 AND s.id IN {connection.dialect.select_ids('?2')} ORDER BY s.id",
        [encoder, json.dumps(ids)],
    )
    return [SetId(row[0]) for row in rows]


def find_best_sets(
    connection: Connection, generation: int, passages: Iterable[PassageId]
) -> dict[PassageId, SetId]:
    """Return the best question set of each passage that was generated with the settings of row
    `generation`.

    Passages without a question set are left out. A provisional set is returned only if the passage
    has no other.
    """
    rows = connection.execute(
        "SELECT passage, id FROM question_set WHERE recipe = ?"
        f" AND passage IN {connection.dialect.select_ids()} ORDER BY provisional DESC",
        [generation, json.dumps(list(passages))],
    )
    return {PassageId(row[0]): SetId(row[1]) for row in rows}


def put_content(
    connection: Connection,
    generation: int,
    content: Sequence[tuple[Passage, QuestionSet]],
    *,
    copied: bool = False,
) -> None:
    """Store passages with their question sets in one transaction. Existing rows stay as they are.

    If `copied` is false, the new rows are added to the counters passages_generated and
    texts_embedded. Pass true for content copied from another database. Raises ContentConflict if a
    passage with the same id but a different text is already stored.
    """
    spent = Counter[str]()
    passages = list[Passage]()
    added = list[QuestionSet]()
    with transaction(connection):
        stored_ids = read_passages(connection, (passage.id for passage, _ in content))
        sets = find_stored_sets(connection, (questions.id for _, questions in content))
        # in the order on disk
        for passage, questions in sorted(content, key=lambda pair: pair[1].id):
            if passage.id not in stored_ids:
                passages.append(passage)
                stored_ids[passage.id] = passage
            elif stored_ids[passage.id] != passage:
                raise ContentConflict(
                    f"Cannot store the passage {passage.id:016x}",
                    "a passage with another text has the same 63-bit id",
                    "Change a word in the passage",
                )
            if questions.id not in sets:
                added.append(questions)
                sets.add(questions.id)
                spent.update(passages_generated=1, texts_embedded=len(questions.vectors))
        _insert_passages(connection, passages)
        _insert_sets(connection, generation, added)
        if not copied:
            connection.executemany(
                "INSERT INTO counter (name, value) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET value = counter.value + excluded.value",
                [*spent.items()],
            )


def read_counters(connection: Connection) -> dict[str, int]:
    """Return the value of each counter by name. Counters start when the database is created."""
    rows = connection.execute("SELECT name, value FROM counter")
    totals = {name: value for name, value in rows if name not in INTERNAL_COUNTERS}
    return {"passages_generated": 0, "texts_embedded": 0} | totals


def _insert_passages(connection: Connection, passages: Sequence[Passage]) -> None:
    connection.executemany(
        "INSERT INTO passage (id, heading, text, words) VALUES (?, ?, ?, ?)",
        [
            (
                passage.id,
                json.dumps(passage.heading, ensure_ascii=False),
                passage.text,
                count_words(build_full_text(passage)),
            )
            for passage in passages
        ],
    )


def build_full_text(passage: Passage) -> str:
    """Return the text that full-text search indexes for a passage."""
    return " ".join([*passage.heading, passage.text])


def _insert_sets(connection: Connection, generation: int, sets: Sequence[QuestionSet]) -> None:
    rows = list[tuple[object, ...]]()
    questions = list[tuple[object, ...]]()
    for question_set in sets:
        vectors = question_set.vectors.astype("<i2").tobytes()
        question_rows = _build_question_rows(question_set)
        digest = compute_set_digest(vectors, question_rows)
        rows.append(
            (
                question_set.id,
                question_set.passage,
                generation,
                vectors,
                digest,
                int(question_set.provisional),
            )
        )
        questions += [(*question, question_set.id) for question in question_rows]
    connection.executemany(
        "INSERT INTO question_set (id, passage, recipe, vectors, digest, provisional)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        rows,
    )
    connection.executemany(
        f"INSERT INTO question ({QUESTION_COLUMNS}, question_set) VALUES (?, ?, ?, ?, ?, ?, ?)",
        questions,
    )


def _build_question_rows(questions: QuestionSet) -> list[tuple[int, int, int, str, str, int]]:
    """Return the questions as rows of QUESTION_COLUMNS, ordered by direction and ordinal."""
    ordinals = {direction: count() for direction in Direction}
    rows = [
        (
            question.id,
            int(question.direction),
            next(ordinals[question.direction]),
            question.text,
            json.dumps(sorted(question.keywords), ensure_ascii=False),
            question.vector_row,
        )
        for question in questions.questions
    ]
    return sorted(rows, key=lambda row: row[1:3])


def read_question_texts(
    connection: Connection, ids: Iterable[QuestionId | None], passages: Iterable[PassageId]
) -> dict[QuestionId, str]:
    """Return the texts of these questions, which must be questions of the given passages. None
    values among the ids are skipped.

    Questions have no index by id. They are found in the question sets of their passages.
    """
    known_ids = {id_ for id_ in ids if id_ is not None}
    if not known_ids:
        return {}
    rows = connection.execute(
        f"SELECT q.id, q.text FROM question_set AS s {connection.dialect.first_join}"
        " question AS q ON q.question_set = s.id"
        f" WHERE s.passage IN {connection.dialect.select_ids()}",
        [json.dumps([*passages])],
    )
    return {QuestionId(row[0]): row[1] for row in rows if row[0] in known_ids}


def read_sets_at(connection: Connection, version: int) -> Iterator[QuestionSet]:
    """Yield the question sets in force at a version, ordered by id."""
    rows = connection.execute(
        "SELECT question_set FROM life WHERE born <= ?1 AND ?1 < died", [version]
    ).fetchall()
    yield from read_sets_by_id(connection, [SetId(row[0]) for row in rows])


def read_sets_by_id(connection: Connection, ids: Iterable[SetId]) -> Iterator[QuestionSet]:
    """Yield the question sets with these ids, ordered by id. Unknown ids are left out."""
    ascending, listed = sorted(set(ids)), connection.dialect.select_ids("?1")
    for start in range(0, len(ascending), _SETS_AT_ONCE):
        parameters = [json.dumps(ascending[start : start + _SETS_AT_ONCE])]
        questions = groupby(
            connection.execute(_QUESTIONS.format(ids=listed), parameters), key=lambda row: row[0]
        )
        pending = next(questions, None)
        sets = connection.execute(_SETS.format(ids=listed), parameters)
        for set_row, passage, blob, provisional, dimensions in sets:
            rows: tuple[Question, ...] = ()
            if pending is not None and pending[0] == set_row:
                rows = tuple(_decode_question(row) for row in pending[1])
                pending = next(questions, None)
            vectors = np.frombuffer(blob, dtype="<i2").reshape(-1, dimensions)
            yield QuestionSet(SetId(set_row), PassageId(passage), rows, vectors, bool(provisional))


def _decode_question(row: tuple[int, int, int, str, str, int]) -> Question:
    return Question(
        QuestionId(row[1]), _DIRECTIONS[row[2]], row[3], _decode_keywords(row[4]), row[5]
    )


@lru_cache(maxsize=1 << 12)
def _decode_keywords(column: str) -> frozenset[str]:
    """Decode a set of keywords. Questions with equal keywords share one set."""
    return frozenset(json.loads(column))
