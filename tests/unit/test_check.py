"""Checking: a healthy store has no findings, and each broken invariant is found and named."""

from pathlib import Path

import pytest

from hopsyncd.ingest.upkeep import verify_matches
from store.check import check, refuse_damaged
from store.contract import Connection
from store.engines.sqlite.database import open_memory_database, open_writer
from store.exceptions import NotADatabase
from store.gc import Retention, collect
from store.history import set_tag
from store.purge import purge, request_purge
from store.versions import list_kept_versions
from tests.fakes.lived import lived
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ALIVE = 2**63 - 1


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return lived(tmp_path / "s.db")


def invariants(connection: Connection) -> set[str]:
    found = check(connection, deep=True) + verify_matches(connection)
    assert all(finding.where and finding.detail and finding.hint for finding in found)
    return {finding.invariant for finding in found}


def damage(connection: Connection, *statements: str) -> None:
    """Do what neither the program nor the schema would."""
    for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
        connection.execute(f"PRAGMA {pragma}")
    for statement in statements:
        assert connection.execute(statement).rowcount != 0, statement


def test_a_healthy_store_has_no_findings(stack: Stack) -> None:
    assert check(stack.connection, deep=False) == []
    assert check(stack.connection, deep=True) == []
    assert verify_matches(stack.connection) == []
    refuse_damaged(stack.connection)


def test_a_store_after_gc_and_a_purge_has_no_findings(stack: Stack) -> None:
    collect(stack.connection, Retention(keep_versions=2, keep_days=0), 10**12)
    assert list_kept_versions(stack.connection) == [5, 6]
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []
    set_tag(stack.connection, "with-sofia", 6, 0)
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    files.remove("sofia.md")
    stack.sync()
    purge(stack.connection, request_purge(stack.connection, stack.source.id, "sofia.md", 10**12))
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []


def test_an_empty_store_has_no_findings(tmp_path: Path) -> None:
    connection = open_writer(tmp_path / "s.db")
    assert check(connection, deep=True) + verify_matches(connection) == []
    refuse_damaged(connection)


def test_a_check_reads_and_writes_nothing(stack: Stack) -> None:
    before = stack.file.total_changes
    check(stack.connection, deep=True)
    assert stack.file.total_changes == before


# The invariant that breaks, and ways to break it: statements, or some joined by "; ".
BROKEN = {
    "the schema is complete": [
        "DROP INDEX match_died",
        "DROP VIEW edge",
    ],
    "every match refers to questions": [
        "UPDATE match SET target = 17 WHERE died > 100",
    ],
    "every foreign key refers to a row": [
        "DELETE FROM passage WHERE id = (SELECT passage FROM life LIMIT 1)",
    ],
    "rows begin at an existing version and end later (the head is 6)": [
        "UPDATE life SET born = 99 WHERE id = 1",
        "UPDATE document SET died = 7 WHERE id = 1",
        "UPDATE match SET died = born WHERE born = 2",
    ],
    "each key has at most one row at the head": [
        "DROP INDEX document_alive; UPDATE document SET died = {alive} WHERE path = 'rome.md'",
    ],
    "the head's counts equal its rows in force": [
        "UPDATE version SET passages = passages + 1 WHERE id = 6",
    ],
    "a version's counts equal its rows in force": [
        "UPDATE version SET documents = 1 WHERE id = 2",
        "UPDATE version SET words = words - 1 WHERE id = 3",
        "UPDATE version SET matches = 1 WHERE id = 1",
    ],
    "versions and their counts are positive": [
        "UPDATE version SET words = -1 WHERE id = 1",
    ],
    "each key has at most one row at any version": [
        "UPDATE document SET born = 1 WHERE path = 'rome.md' AND born > 1",
        (
            "INSERT INTO life (passage, born, died, question_set) SELECT passage, born + 1,"
            " died, question_set FROM life WHERE died BETWEEN born + 2 AND 9"
        ),
    ],
    "a passage is in force exactly while a document contains it": [
        "DELETE FROM life WHERE id = 1",
        "DELETE FROM document WHERE id = 1",
    ],
    "a passage interval has the questions of that passage": [
        "UPDATE life SET question_set = (SELECT max(id) FROM question_set) WHERE id = 1",
    ],
    "a match joins an outgoing to an incoming question while both are in force": [
        "UPDATE match SET target = question WHERE born = 1",
        "UPDATE match SET died = {alive} WHERE died = 2",
    ],
    "a match leads to another passage": [
        (
            "UPDATE match SET target = (SELECT t.id FROM question AS q JOIN question AS t USING"
            " (question_set) WHERE q.id = match.question AND t.direction = 0)"
        ),
    ],
    "the edge threshold admits the number of matches in the edge budget": [
        "UPDATE version SET cut_similarity = cut_similarity / 2 WHERE id = 5",
        "UPDATE version SET cut_question = cut_question + 1 WHERE id = 6",
        "UPDATE version SET cut_question = NULL, cut_similarity = NULL WHERE id = 4",
        "UPDATE version SET edge_budget = edge_budget + 1 WHERE id = 6",
    ],
    "a passage's id is the hash of its text": [
        "UPDATE passage SET text = text || '.' WHERE id = {passage}",
    ],
    "a passage's word count is the number of its words": [
        "UPDATE passage SET words = words + 1 WHERE id = {passage}",
    ],
    "a set's id is the hash of its passage and generation settings": [
        "UPDATE recipe SET name = 'another'",
    ],
    "questions and vectors have their stored digest": [
        "UPDATE question SET text = text || '?' WHERE id = {question}",
        "DELETE FROM question WHERE id = {question}",
    ],
    "the bytes of vectors are complete rows": [
        "UPDATE question_set SET vectors = substr(vectors, 2) WHERE id = {set}",
    ],
    "vectors have the length 4000 or 0": [
        (
            "UPDATE question_set SET vectors = CAST(zeroblob(length(vectors) - 2) || x'0010' AS"
            " BLOB) WHERE id = {set}"
        ),
    ],
    "a question's id is the hash of its set and place": [
        "UPDATE question SET ordinal = 77 WHERE id = {question}",
    ],
    "every question has a vector": [
        "UPDATE question SET vector_row = 999 WHERE id = {question}",
    ],
    "keywords are sorted and distinct": [
        "UPDATE question SET keywords = json_array('b', 'a') WHERE id = {question}",
    ],
    "a document and its occurrences have their stored digest": [
        "UPDATE document SET path = 'elsewhere.md' WHERE id = 1",
        "UPDATE placement SET first_line = 0 WHERE document = 2 AND ordinal = 0",
    ],
    "the stored similarity of a match equals the similarity of its two questions": [
        "UPDATE match SET similarity = similarity + 1e-15 WHERE born = 1 AND died < 9",
    ],
    "each outgoing question has its best match": [
        "DELETE FROM match WHERE died = {alive} AND born = 1",
    ],
}
WAYS = [(invariant, way) for invariant, ways in BROKEN.items() for way in ways]


@pytest.mark.parametrize(("invariant", "statements"), WAYS)
def test_a_broken_invariant_is_found_and_named(
    stack: Stack, invariant: str, statements: str
) -> None:
    one = {
        name: stack.connection.execute(f"SELECT min({column}) FROM {table}").fetchone()[0]
        for name, column, table in (
            ("passage", "passage", "life"),
            ("set", "id", "question_set"),
            ("question", "id", "question"),
        )
    }
    damage(stack.connection, *statements.format(alive=ALIVE, **one).split("; "))
    assert invariant in invariants(stack.connection)


def test_a_second_best_match_is_found(stack: Stack) -> None:
    """Its similarity is right, its place in the ranking may be, but another answers better."""
    question, target = stack.connection.execute(
        f"SELECT question, target FROM match WHERE died = {ALIVE} LIMIT 1"
    ).fetchone()
    damage(
        stack.connection,
        f"UPDATE match SET target = (SELECT max(t.target) FROM match AS t WHERE t.died = {ALIVE}"
        f" AND t.target <> {target}) WHERE question = {question} AND died = {ALIVE}",
    )
    found = [
        finding
        for finding in verify_matches(stack.connection)
        if finding.where == f"match {question}"
    ]
    assert any(str(target) in one.detail for one in found)


class TestOpening:
    def test_a_missing_table_is_refused(self, stack: Stack) -> None:
        damage(stack.connection, "DROP TABLE tag")
        with pytest.raises(NotADatabase, match=r"tag: is missing.*backup"):
            refuse_damaged(stack.connection)

    def test_a_head_that_differs_from_the_rows_in_force_is_refused(self, stack: Stack) -> None:
        damage(stack.connection, "UPDATE version SET matches = matches - 1 WHERE id = 6")
        with pytest.raises(NotADatabase, match="rows of match"):
            refuse_damaged(stack.connection)

    def test_a_database_without_our_schema_is_refused(self) -> None:
        with pytest.raises(NotADatabase):
            refuse_damaged(open_memory_database())

    @pytest.mark.parametrize(
        "column", ["life SET born = 99", "match SET died = 99", "match SET born = 0"]
    )
    def test_intervals_beyond_the_versions_are_refused(self, stack: Stack, column: str) -> None:
        damage(stack.connection, f"UPDATE {column} WHERE died = {ALIVE}")
        with pytest.raises(NotADatabase, match="rows begin at versions"):
            refuse_damaged(stack.connection)

    def test_the_opening_check_reads_no_row_of_a_match(self, stack: Stack) -> None:
        asked: list[str] = []
        stack.file.set_trace_callback(asked.append)
        refuse_damaged(stack.connection)
        stack.file.set_trace_callback(None)
        for sql in (one for one in asked if "match" in one and one.startswith("SELECT")):
            plan = stack.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
            assert not [row for row in plan if row[3] == "SCAN match"], (sql, plan)
