"""What hopsyncd asks of a store, on both engines: a SQLite file and a PostgreSQL server.

Each is given the same history. What one says of it, the other must say too, row for row.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopsyncd.index.edge_selection import compute_edge_budget
from hopsyncd.ingest.index_loading import load_snapshot
from hopsyncd.ingest.upkeep import verify_matches
from hopsyncd.retrieve.strategies.plain import rank_by_vector
from store import history, operational, reads, sources
from store.changes import read_changes, stamp
from store.check import check, refuse_damaged
from store.commit import put_seen
from store.content import put_content, read_counters, read_question_texts, register_generation
from store.contract import Connection
from store.copying import copy_database
from store.exceptions import (
    ContentConflict,
    NoSuchVersion,
    PurgeRefused,
    StoreError,
    TagRefused,
)
from store.gc import Retention, collect, plan_gc
from store.open_database import Database, open_reader, open_writer
from store.purge import purge, request_purge
from store.records import GenerationConfig, Passage, Seen, SetId, to_grid
from store.transactions import snapshot
from store.versions import list_kept_versions, read_version
from store.visibility import HiddenFolders, Mask
from tests.fakes.dump import graphs
from tests.fakes.edited import LATER_MS, NOTHING, edited
from tests.fakes.follower import Follower, read_at
from tests.fakes.lived import lived
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.postgres import Postgres
from tests.fakes.stack import Stack
from tests.fakes.triplets import RECIPE, triplets


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "file":
        return tmp_path / "s.db"
    running: Postgres = request.getfixturevalue("server")
    return running.database()


def test_a_problem_may_be_described_at_length(place: Database) -> None:
    """For example, the error of a connector, or a link that leads to a long path."""
    with closing(open_writer(place)) as connection:
        source = sources.register_source(connection, "notes", "folder", "")
        why = "".join(f"{index * index:x}" for index in range(3000))
        put_seen(connection, [Seen(source, "a.md", "1", None, why, "")], [])
        assert sources.list_item_problems(connection, 5) == [("notes", "a.md", why, "")]


def counts_of_number(number: int) -> history.VisibleCounts:
    """Stand for the index, which counts what a version has."""
    return history.VisibleCounts(number, number, number, 0, 0)


MASKS: tuple[Mask, ...] = (
    frozenset(),
    frozenset({"notes"}),
    frozenset({HiddenFolders("notes", ("a/**",), (True, False))}),
)


def told(connection: Connection) -> dict[str, object]:
    """What all functions that read say, of every version and pair of versions."""
    kept = [read_version(connection, number) for number in list_kept_versions(connection)]
    newest = kept[-1].id
    names = sources.read_source_names(connection)
    (source,) = names
    log = history.read_log(connection, 100)
    diffs = [history.diff(connection, old, new) for old in kept for new in kept]
    edges = [edge for diff in diffs for edge in diff.edges_added][:20]
    passages = [passage for diff in diffs for passage in diff.passages_added]
    questions = [question for question, _ in edges]
    ends = history.read_edge_ends(connection, edges, ())
    asking = [end.source for end in ends]
    assert history.read_edge_ends(connection, edges, asking) == ends
    under = ["a", "rome.md", ""]
    return {
        "versions": kept,
        "log": log,
        "hidden": [
            history.restrict_entry(
                connection, entry, hidden, lambda n: compute_edge_budget(n, 1.0), counts_of_number
            )
            for entry in log
            if entry.collected_ms is None
            for hidden in MASKS
        ],
        "diffs": diffs,
        "moved": [
            history.count_source_changes(connection, "notes", 1, number.id) for number in kept
        ],
        "ends": ends,
        "questions": read_question_texts(connection, questions, asking),
        "places": [reads.read_places(connection, version_.id, passages) for version_ in kept],
        "asked": [reads.read_questions(connection, newest, passage) for passage in passages[:3]],
        "holders": reads.find_live_holders(connection, passages),
        "passages_in_force": reads.find_in_force(connection, passages),
        "documents": [reads.list_documents(connection, version_.id, source) for version_ in kept],
        "page": reads.list_documents_after(connection, newest, ("", ""), 100, source="notes"),
        "below": reads.list_documents_after(connection, newest, ("", ""), 100, under="a"),
        "one": reads.read_document(connection, newest, "notes", "rome.md"),
        "live": reads.read_live_document(connection, source, "rome.md"),
        "count": reads.count_live_documents(connection, source),
        "seen": [
            sources.read_seen_items(connection, source, part) for part in (None, under, ["x"])
        ],
        "pins": sources.read_pins(connection, source),
        "sources": sources.list_sources(connection),
        "problems": sources.list_item_problems(connection, 10),
        "excluded": sources.read_excluded_paths(connection, source, under),
        "counters": read_counters(connection),
        "words": [
            [part.tolist() for part in reads.read_word_counts(connection, version_.id)]
            for version_ in kept
        ],
        "stamps": [stamp(connection, version_.id) for version_ in kept],
        "waiting": operational.count_waiting_by_reason(connection, newest),
    }


def assert_sound(connection: Connection) -> None:
    refuse_damaged(connection)
    assert check(connection, deep=True) + verify_matches(connection) == []


@pytest.mark.parametrize("make", [edited, lived])
def test_a_history_is_the_same_on_either(
    make: Callable[[Database], Stack], tmp_path: Path, on_server: str
) -> None:
    file, server = make(tmp_path / "s.db"), make(on_server)
    assert graphs(server.connection) == graphs(file.connection)
    assert told(server.connection) == told(file.connection)
    assert_sound(server.connection)


def test_a_search_by_vector_gives_the_same_bits(tmp_path: Path, on_server: str) -> None:
    answers = []
    for made in (lived(tmp_path / "s.db"), lived(on_server)):
        for number in (1, 4, 6):
            with snapshot(made.connection):
                head = load_snapshot(made.connection, read_version(made.connection, number))
                for query in ("rome trades", "a river", "kyoto", "..."):
                    vector = to_grid(FakeEncoder().encode([query]))[0]
                    answers.append(rank_by_vector(head, vector, 7))
    assert answers[: len(answers) // 2] == answers[len(answers) // 2 :]


class TestFollowing:
    @pytest.mark.parametrize("stops", [(6,), (1, 2, 3, 4, 5, 6), (4, 6)])
    def test_a_follower_reaches_every_version_through_the_changes(
        self, place: Database, stops: tuple[int, ...]
    ) -> None:
        stack = lived(place)
        follower, after = Follower(), 0
        with snapshot(stack.connection):
            for until in stops:
                follower.apply(read_changes(stack.connection, after, until))
                after = until
            for number in range(1, 7):
                assert follower.at(number) == read_at(stack.connection, number)

    def test_a_reader_sees_one_state_in_a_snapshot(self, place: Database) -> None:
        stack = lived(place)
        reader = open_reader(place)
        with snapshot(reader):
            before = graphs(reader)
            stack.restore(2)
            assert graphs(reader) == before
        assert len(graphs(reader)) == len(before) + 1


class TestUpkeep:
    def test_gc_can_be_cut_short_after_each_transaction(self, place: Database) -> None:
        stack, steps = edited(place), 0
        before = graphs(stack.connection)
        plan = plan_gc(stack.connection, NOTHING, LATER_MS)

        def between() -> None:
            raise KeyboardInterrupt

        done = False
        while not done and steps < 100:
            try:
                collect(stack.connection, NOTHING, LATER_MS, between)
                done = True
            except KeyboardInterrupt:
                assert graphs(stack.connection) == {6: before[6]}
                steps += 1
                if steps > 2:
                    collect(stack.connection, NOTHING, LATER_MS)
                    done = True
        assert graphs(stack.connection) == {6: before[6]}
        assert plan.versions == (1, 2, 3, 4, 5)
        assert_sound(stack.connection)

    def test_gc_does_not_change_kept_versions(self, place: Database) -> None:
        stack = lived(place)
        before = graphs(stack.connection)
        history.set_tag(stack.connection, "mine", 2, 0)
        collect(stack.connection, Retention(2, 0), LATER_MS)
        assert graphs(stack.connection) == {number: before[number] for number in (2, 5, 6)}
        with pytest.raises(NoSuchVersion, match="expired"):
            read_version(stack.connection, 3)

    def test_a_purge_is_the_same_on_either(self, tmp_path: Path, on_server: str) -> None:
        results, left = [], []
        for made in (lived(tmp_path / "s.db"), lived(on_server)):
            with pytest.raises(PurgeRefused):
                purge(made.connection, request_purge(made.connection, made.source.id, "oslo.md", 0))
            made.connector.remove("oslo.md")  # type: ignore[attr-defined]
            made.sync()
            results.append(
                purge(made.connection, request_purge(made.connection, made.source.id, "oslo.md", 0))
            )
            left.append((graphs(made.connection), told(made.connection)))
            assert_sound(made.connection)
        assert left[0] == left[1]
        assert results[0] == results[1]

    def test_a_rebuild_changes_nothing(self, place: Database) -> None:
        stack = lived(place)
        before = graphs(stack.connection)[6]
        stack.writer.rebuild()
        assert graphs(stack.connection)[7] == before
        assert_sound(stack.connection)

    def test_a_deep_check_finds_changed_rows(self, place: Database) -> None:
        stack = edited(place)
        stack.connection.execute("UPDATE passage SET text = text || '!' WHERE words > 3")
        stack.connection.execute("UPDATE version SET words = words + 1 WHERE id = 6")
        found = {finding.invariant for finding in check(stack.connection, deep=True)}
        assert {
            "a passage's id is the hash of its text",
            "a version's counts equal its rows in force",
        } <= found


class TestRecords:
    def test_operational_records_are_read_as_written(self, place: Database) -> None:
        connection = edited(place).connection
        operational.note_run(connection, "gc", 5, None)
        operational.note_run(connection, "gc", 9, "full")
        assert operational.read_jobs(connection)["gc"] == operational.JobRow("gc", 9, 5, "full")
        for why in ("crash", "again"):
            operational.put_quarantined(connection, b"\x00\xff", "r1", why, 7)
        assert operational.find_quarantined(connection, "r1") == {b"\x00\xff": "again"}
        assert operational.end_quarantine(connection, "r2")
        assert operational.count_quarantined(connection) == 0
        wait = operational.Wait(SetId(2**62), "down", 1, 4)
        for tries in (1, 2):
            operational.put_waits(connection, [replace(wait, tries=tries)])
        assert operational.read_waits(connection, [wait.question_set]) == {
            wait.question_set: replace(wait, tries=2)
        }
        state = sources.ListingState("c1", 8)
        sources.put_listing_state(connection, 1, state)
        assert sources.read_listing_state(connection, 1) == state
        sources.set_source_paused(connection, 1, 3)
        assert sources.is_paused(connection, 1)
        sources.register_source(connection, "notes", "memory", "elsewhere", "new")
        assert sources.read_listing_state(connection, 1) == sources.ListingState(None, None)
        assert {item.revision for item in sources.read_seen_items(connection, 1).values()} == {""}

    def test_a_tag_names_one_version_until_it_is_deleted(self, place: Database) -> None:
        connection = lived(place).connection
        history.set_tag(connection, "Entwurf für Zoë / 2", 3, 0)
        history.set_tag(connection, "Entwurf für Zoë / 2", 3, 1)
        assert history.resolve(connection, "Entwurf für Zoë / 2").id == 3
        with pytest.raises(TagRefused, match="names version 3"):
            history.set_tag(connection, "Entwurf für Zoë / 2", 4, 0)
        history.delete_tag(connection, "Entwurf für Zoë / 2")
        with pytest.raises(TagRefused):
            history.delete_tag(connection, "Entwurf für Zoë / 2")
        assert history.resolve(connection, "9999-01-01").id == 6

    def test_names_are_ordered_by_their_bytes_everywhere(self, place: Database) -> None:
        names = ["a b.md", "a-b.md", "a.md", "a/b.md", "B.md", "é.md", "z.md", "東京.md"]
        stack = Stack(place, MemoryConnector(dict.fromkeys(names, b"Rome.")))
        stack.sync()
        found = reads.list_documents_after(stack.connection, 1, ("", ""), 100)
        assert [item.path for item in found] == sorted(names)
        under = sources.read_seen_items(stack.connection, 1, ["a"])
        assert [*under] == ["a/b.md"]

    def test_another_text_of_the_same_id_is_refused_whole(
        self, place: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connection = open_writer(place)
        generation = register_generation(connection, GenerationConfig(RECIPE, "by hand", 2))
        one, other = Passage((), "one"), Passage((), "other")
        monkeypatch.setattr("store.records.compute_content_id", lambda *parts: 7)
        of = triplets(one.id, [("one", (1, 0))], [])
        put_content(connection, generation, [(one, of)])
        with pytest.raises(ContentConflict):
            put_content(connection, generation, [(other, of)])
        assert connection.execute("SELECT text FROM passage").fetchall() == [("one",)]


def test_a_copy_to_a_server_and_back_is_equal(tmp_path: Path, on_server: str) -> None:
    file = lived(tmp_path / "s.db")
    history.set_tag(file.connection, "mine", 2, 0)
    server, back = open_writer(on_server), open_writer(tmp_path / "back.db")
    with pytest.raises(KeyboardInterrupt):
        copy_database(file.connection, server, interrupting("question"))
    copy_database(file.connection, server)
    assert_sound(server)
    copy_database(server, back)
    assert_sound(back)
    assert graphs(back) == graphs(server) == graphs(file.connection)
    assert told(back) == told(server) == told(file.connection)
    server.close()
    again = Stack(on_server, file.connector, budget_factor=0.1)
    file.connector.put("new.md", b"# New\n\nCaesar met Brutus.\n")  # type: ignore[attr-defined]
    again.sync()
    assert_sound(again.connection)
    with pytest.raises(StoreError, match="already has versions"):
        copy_database(again.connection, back)


def test_a_copy_that_was_killed_after_its_commit_succeeds_when_run_again(tmp_path: Path) -> None:
    file = lived(tmp_path / "s.db")
    with closing(open_writer(tmp_path / "copy.db")) as target:
        counts = copy_database(file.connection, target)
    with closing(open_writer(tmp_path / "copy.db")) as target:
        assert copy_database(file.connection, target) == counts
        target.execute("DELETE FROM document WHERE id = (SELECT max(id) FROM document)")
        with pytest.raises(StoreError, match="already has versions"):
            copy_database(file.connection, target)


def interrupting(at: str) -> Callable[[str], None]:
    def tell(table: str) -> None:
        if table == at:
            raise KeyboardInterrupt

    return tell


def test_both_engines_have_the_same_tables_and_columns(tmp_path: Path, on_server: str) -> None:
    file, server = open_writer(tmp_path / "s.db"), open_writer(on_server)
    stored = file.execute(
        "SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c"
        " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND t.name NOT LIKE '_sqlite%'"
    ).fetchall()
    served = server.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'hopsyncd' AND table_name NOT IN ('applied', 'edge', 'asked_sync')"
        " AND table_name NOT LIKE '%spent'"  # with SQLite, the ledgers have files of their own
    ).fetchall()
    assert sorted(stored) == sorted(served)


texts = st.sampled_from([b"Rome met Ada.", b"Ada wrote X1.\n\nX1 ran in Paris.", b"of note", b""])
edits = st.lists(
    st.tuples(st.sampled_from(["a.md", "b.md", "c/d.md"]), st.none() | texts), max_size=3
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(edits, min_size=1, max_size=5))
def test_any_short_history_is_the_same_on_sqlite_and_postgres(
    tmp_path_factory: pytest.TempPathFactory,
    server: Postgres,
    steps: list[list[tuple[str, bytes | None]]],
) -> None:
    found = []
    for place in (tmp_path_factory.mktemp("file") / "s.db", server.database()):
        files = MemoryConnector({"kept.md": b"Rome."})
        stack = Stack(place, files)
        stack.sync()
        for step in steps:
            for path, data in step:
                if data is not None:
                    files.put(path, data)
                elif path in files.files:
                    files.remove(path)
            stack.sync()
        found.append((graphs(stack.connection), told(stack.connection)))
        assert_sound(stack.connection)
        stack.close()
    assert found[0] == found[1]
