"""A deep check costs what is stored, not that times the versions; and it says how far it is."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from hopsyncd.ingest.upkeep import check_database
from store.check import run_checks
from store.check_rows import GRAPH_CHECKS
from store.contract import Connection
from store.engines.sqlite.database import open_fresh_database
from tests.fakes.lived import lived

ALIVE = 2**63 - 1
MATCHES = 40_000


def graph(versions: int) -> Connection:
    """So many versions of the same matches, with a cut amid them; nothing else is stored."""
    connection = open_fresh_database()
    connection.execute("PRAGMA foreign_keys = OFF")
    similarities = np.random.default_rng(1).integers(0, 900, MATCHES) / 1000
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO match (question, born, died, target, similarity) VALUES (?, 1, ?, 0, ?)",
        [(number, ALIVE, float(one)) for number, one in enumerate(similarities)],
    )
    rows = connection.execute(
        "SELECT similarity, question FROM match ORDER BY similarity DESC, question LIMIT 10000"
    ).fetchall()
    connection.executemany(
        "INSERT INTO version (id, created_ms, reason, recipe, rules, documents, passages, words,"
        " matches, edge_budget, cut_similarity, cut_question, counters)"
        " VALUES (?, 0, '', 1, '', 0, 0, 0, ?, ?, ?, ?, '{}')",
        [(number + 1, MATCHES, *cut(rows, 5000 + number)) for number in range(versions)],
    )
    connection.execute("COMMIT")
    return connection


def cut(rows: list[tuple[float, int]], budget: int) -> tuple[int, float, int]:
    return budget, *rows[budget - 1]


def processor_s(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def test_the_graph_is_checked_at_1600_versions_in_the_time_of_200() -> None:
    took_s = {}
    for versions in (200, 1600):
        with closing(graph(versions)) as connection:
            assert run_checks(connection, GRAPH_CHECKS) == []
            took_s[versions] = min(
                processor_s(lambda: run_checks(connection, GRAPH_CHECKS)) for _ in range(3)
            )
    assert took_s[1600] < 2.5 * took_s[200], took_s


def test_a_cut_that_is_wrong_at_one_of_many_versions_is_found() -> None:
    with closing(graph(300)) as connection:
        connection.execute("UPDATE version SET edge_budget = edge_budget + 1 WHERE id = 150")
        connection.execute("UPDATE match SET died = 200 WHERE question = 7")
        found = [
            finding
            for finding in run_checks(connection, GRAPH_CHECKS)
            if "the edge threshold" in finding.invariant
        ]
        (similarity,) = connection.execute(
            "SELECT similarity FROM match WHERE question = 7"
        ).fetchone()
        cuts = connection.execute(
            "SELECT id FROM version WHERE id = 150 OR id >= 200 AND (cut_similarity < ?1"
            " OR cut_similarity = ?1 AND cut_question >= 7) ORDER BY id",
            [similarity],
        )
        assert [finding.where for finding in found] == [f"version {row[0]}" for row in cuts]


def told_of(connection: Connection, deep: bool) -> list[tuple[str, int, int]]:
    told: list[tuple[str, int, int]] = []
    check_database(connection, deep, lambda *step: told.append(step))
    return told


def test_a_check_says_how_far_it_is(tmp_path: Path) -> None:
    stack = lived(tmp_path / "s.db")
    for deep, last in ((False, "head counts"), (True, "best matches")):
        told = told_of(stack.connection, deep)
        (total,) = {total for _, _, total in told}
        assert [done for _, done, _ in told] == [*range(total)]
        assert told[-1][0] == last
    stack.close()
