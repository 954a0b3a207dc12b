"""Versions: intervals, reads of the past, and a commit that is whole or not there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from store.commit import commit_version
from store.content import put_content, read_passages, read_sets_at, register_generation
from store.contract import Connection
from store.engines.sqlite.database import SqliteError, open_writer
from store.exceptions import ContentConflict, NoSuchVersion
from store.history import resolve
from store.reads import read_live_documents, read_matches_at, read_places, read_word_counts
from store.records import (
    ALIVE,
    Change,
    Document,
    EdgeThreshold,
    GenerationConfig,
    Match,
    Occurrence,
    Passage,
    PassageId,
    Seen,
    SetId,
    Version,
    compute_set_id,
    hash_content,
)
from store.sources import read_seen_items, register_source
from store.versions import read_head, read_version
from tests.fakes.triplets import RECIPE, answers, asks, triplets

ROME, GAUL = Passage(("Rome",), "A city of stone"), Passage((), "A land")
OF_ROME = triplets(ROME.id, [("rome", (1, 0))], [("gaul", (0, 1))])
OF_GAUL = triplets(GAUL.id, [("gaul", (0, 1))], [("rome", (1, 0))])
TO_GAUL = Match(asks(OF_ROME), answers(OF_GAUL), 1.0)
NOTHING = Change("test", 1, "rules", [], [], [], [], [], [], 0, 0, None, [], [], {})


@pytest.fixture
def store(tmp_path: Path) -> Connection:
    connection = open_writer(tmp_path / "graph.db")
    register_source(connection, "notes", "folder", "/notes")
    generation = register_generation(connection, GenerationConfig(RECIPE, "by hand", 2))
    put_content(connection, generation, [(ROME, OF_ROME), (GAUL, OF_GAUL)])
    return connection


def document(path: str, *passages: Passage) -> Document:
    occurrences = tuple(Occurrence(p.id, n, n + 1) for n, p in enumerate(passages, 1))
    content = hash_content("".join(p.text for p in passages).encode())
    return Document(1, path, content, "text/plain", occurrences)


def begun(*passages: Passage) -> Sequence[tuple[PassageId, SetId]]:
    return [(passage.id, compute_set_id(passage.id, RECIPE)) for passage in passages]


def both(store: Connection) -> Version:
    """Version 1: Rome and Gaul in one document, and what Rome asks of Gaul."""
    change = replace(
        NOTHING,
        documents_new=[document("a.md", ROME, GAUL)],
        passages_begun=begun(ROME, GAUL),
        matches_begun=[TO_GAUL],
        matches=1,
        edge_budget=1,
        seen=[Seen(1, "a.md", "r1", b"1")],
        counters={"passages_generated": 2},
    )
    return commit_version(store, change, 1000)


def without_gaul(store: Connection) -> Version:
    """Version 2: Gaul is gone, and with it the match."""
    change = replace(
        NOTHING,
        documents_new=[document("a.md", ROME)],
        passages_ended=[GAUL.id],
        matches_ended=[TO_GAUL.question],
        edge_threshold=EdgeThreshold(0.5, TO_GAUL.question),
    )
    return commit_version(store, change, 2000)


def dumped(store: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Every row of the ordinary tables, but the count of transactions."""
    names = store.execute("SELECT name FROM pragma_table_list WHERE type = 'table'").fetchall()
    rows = {name: store.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}
    rows["counter"] = [row for row in rows["counter"] if row[0] != "writes"]
    return rows


def in_force(store: Connection, number: int) -> tuple[object, ...]:
    return (
        sorted(question_set.passage for question_set in read_sets_at(store, number)),
        read_word_counts(store, number)[0].tolist(),
        read_matches_at(store, number).question.tolist(),
        [place.first_line for place in read_places(store, number, [GAUL.id]).get(GAUL.id, [])],
    )


def test_a_store_without_versions_has_no_head(store: Connection) -> None:
    assert read_head(store) is None
    with pytest.raises(NoSuchVersion, match="nothing has been indexed yet"):
        read_version(store, 1)
    for at in ("head", "yesterday"):
        with pytest.raises(NoSuchVersion, match="nothing has been indexed yet"):
            resolve(store, at)


def test_a_version_is_read_back_as_it_was_committed(store: Connection) -> None:
    first, second = both(store), without_gaul(store)
    assert (first.id, first.documents, first.passages, first.words, first.matches) == (
        1,
        1,
        2,
        7,
        1,
    )
    assert (second.id, second.documents, second.passages, second.words) == (2, 1, 1, 5)
    assert read_version(store, 1) == first
    assert read_head(store) == read_version(store, 2) == second
    with pytest.raises(NoSuchVersion, match="the newest version is 2"):
        read_version(store, 3)


@pytest.mark.parametrize("at", ["9" * 200, "0001-01-01T00:00+23:59", "9999-12-31T23:59-23:59"])
def test_a_name_that_no_version_can_have_is_refused_as_any_other(
    store: Connection, at: str
) -> None:
    both(store)
    with pytest.raises(NoSuchVersion, match="Cannot read version"):
        resolve(store, at)


def test_reads_of_the_past_give_what_was_in_force(store: Connection) -> None:
    both(store)
    then = in_force(store, 1)
    assert then == (sorted([ROME.id, GAUL.id]), sorted([ROME.id, GAUL.id]), [TO_GAUL.question], [2])
    without_gaul(store)
    assert in_force(store, 1) == then
    assert in_force(store, 2) == ([ROME.id], [ROME.id], [], [])
    assert in_force(store, 0) == ([], [], [], [])


def test_a_row_that_returns_gets_a_second_interval(store: Connection) -> None:
    both(store)
    without_gaul(store)
    change = replace(
        NOTHING,
        documents_new=[document("b.md", GAUL)],
        passages_begun=begun(GAUL),
        matches_begun=[TO_GAUL],
    )
    commit_version(store, change, 3000)
    lives = "SELECT born, died FROM life WHERE passage = ? ORDER BY born"
    assert store.execute(lives, [GAUL.id]).fetchall() == [(1, 2), (3, ALIVE)]
    spans = "SELECT born, died FROM match WHERE question = ? ORDER BY born"
    assert store.execute(spans, [TO_GAUL.question]).fetchall() == [(1, 2), (3, ALIVE)]
    assert [in_force(store, n)[2] for n in (1, 2, 3)] == [
        [TO_GAUL.question],
        [],
        [TO_GAUL.question],
    ]


def test_a_removed_document_is_gone_from_the_head_only(store: Connection) -> None:
    both(store)
    gone = replace(
        NOTHING,
        documents_gone=[(1, "a.md"), (1, "never there.md")],
        passages_ended=[ROME.id, GAUL.id],
        matches_ended=[TO_GAUL.question],
        unseen=[(1, "a.md")],
    )
    assert commit_version(store, gone, 2000).documents == 0
    assert read_live_documents(store, 1) == {}
    assert read_seen_items(store, 1) == {}
    assert read_places(store, 1, [ROME.id])[ROME.id][0].document == "a.md"


def test_a_commit_that_fails_leaves_nothing(store: Connection) -> None:
    both(store)
    before = dumped(store)
    bad = replace(
        NOTHING,
        documents_new=[document("b.md", GAUL)],
        passages_ended=[ROME.id],
        matches_begun=[TO_GAUL, TO_GAUL],  # a question has at most one match
        seen=[Seen(1, "b.md", "r1", b"2")],
    )
    with pytest.raises(SqliteError):
        commit_version(store, bad, 2000)
    assert dumped(store) == before
    assert without_gaul(store).id == 2


def test_one_id_cannot_stand_for_two_texts(store: Connection) -> None:
    class Forged(Passage):
        @property
        def id(self) -> int:  # type: ignore[override]
            return ROME.id

    with pytest.raises(ContentConflict, match="another text"):
        put_content(store, 1, [(Forged((), "Something else"), OF_ROME)])
    assert read_passages(store, [ROME.id]) == {ROME.id: ROME}


def test_content_is_stored_once(store: Connection) -> None:
    before = dumped(store)
    put_content(store, 1, [(ROME, OF_ROME), (GAUL, OF_GAUL)])
    assert dumped(store) == before


def test_question_sets_are_read_back_as_they_were_made(store: Connection) -> None:
    both(store)
    found = {question_set.passage: question_set for question_set in read_sets_at(store, 1)}
    for made in (OF_ROME, OF_GAUL):
        assert found[made.passage].questions == made.questions
        assert (found[made.passage].vectors == made.vectors).all()
