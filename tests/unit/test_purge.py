"""Purging: gone from every version, and from every byte of the files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hopsyncd.api.version_log import diff_answer, restrict_diff
from hopsyncd.index.acl_view import build_acl_view
from hopsyncd.ingest.read import Batch
from hopsyncd.ingest.upkeep import verify_matches
from store.check import check
from store.content import read_passages
from store.engines.sqlite.database import open_reader
from store.exceptions import PurgeRefused
from store.gc import Retention, collect
from store.history import diff, set_tag
from store.purge import Purge, PurgeResult, purge, request_purge
from store.records import Passage
from store.sources import include_again, read_excluded_paths
from store.transactions import snapshot
from store.versions import list_kept_versions, read_version
from tests.fakes.dump import graph_at, graphs, without
from tests.fakes.kill import copy_database
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

NOW_MS = 10_000_000_000
# Words that stand nowhere else.
HEADING, TEXT, EDIT = "Zqheading", "Xqtext", "Wqedit"
PREPARED, COLLECTED, SHARED = "Vqprepared", "Uqcollected", "Jqshared"
SHARED_PASSAGE = f"The {SHARED} clause binds Rome and Carthage alike."

SECRET = f"# Acts\n\n## {HEADING}\n\nCaesar told Brutus of {TEXT}.\n".encode()
OTHER = b"# Acts\n\n## Rome\n\nCaesar met Brutus in Rome. Nero burnt Rome.\n"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """secret.md is written, edited, tagged and shares a passage with other.md from 4 on."""
    files = MemoryConnector({"secret.md": SECRET, "other.md": OTHER})
    made = Stack(tmp_path / "s.db", files)
    made.sync()
    set_tag(made.connection, "mine", 1, 0)
    for edit in (
        SECRET + f"\nBrutus told Nero of {EDIT}.\n".encode(),
        SECRET + f"\n## Law\n\n{SHARED_PASSAGE}\n".encode(),
    ):
        files.put("secret.md", edit)
        made.sync()
    files.put("other.md", OTHER + f"\n## Law\n\n{SHARED_PASSAGE}\n".encode())
    made.sync()
    assert made.head.id == 4
    return made


def purged(stack: Stack, path: str = "secret.md") -> PurgeResult:
    """As the daemon does: first a version without the document, then the purge."""
    stack.writer.apply(Batch(f"purge of {path}", gone=((stack.source.id, path),)))
    return purge(stack.connection, request_purge(stack.connection, stack.source.id, path, NOW_MS))


def files_with(folder: Path, word: str) -> list[str]:
    """The files of the data directory that have the word, or most of it, in any case and UTF."""
    stem = word.lower()[1:-1]
    wanted = [stem.encode(), stem.encode("utf-16-le")]
    return [
        file.name
        for file in folder.iterdir()
        if any(one in file.read_bytes().lower() for one in wanted)
    ]


def test_a_diff_after_a_purge_shows_only_remaining_documents(stack: Stack) -> None:
    ends = read_version(stack.connection, 2), read_version(stack.connection, 4)
    whole = stack.writer.make_snapshot(ends[1])
    heads = [build_acl_view(one, frozenset({"closed"}), 1.0, whole) for one in ends]
    found = restrict_diff(diff(stack.connection, *ends), *heads)
    purged(stack)
    told = diff_answer(stack.connection, *ends, found, None)["passages"]
    assert (len(found.passages_added), len(found.passages_removed)) == (1, 1)
    assert [[one["heading"] for one in told[kind]] for kind in ("added", "removed")] == [
        [["Acts", "Law"]],
        [],
    ]


class TestTheFiles:
    @pytest.mark.parametrize("word", [HEADING, TEXT, EDIT])
    def test_no_file_contains_a_word_of_the_purged_document(
        self, stack: Stack, tmp_path: Path, word: str
    ) -> None:
        assert files_with(tmp_path, word)
        assert purged(stack).erased
        assert files_with(tmp_path, word) == []
        stack.close()
        assert files_with(tmp_path, word) == []

    def test_no_file_contains_uncommitted_content_of_the_purged_document(
        self, stack: Stack, tmp_path: Path
    ) -> None:
        half = Passage((), f"Nero heard of {PREPARED}.")
        stack.prepare(half)
        purged(stack)
        assert files_with(tmp_path, PREPARED) == []
        assert not read_passages(stack.connection, [half.id])

    def test_no_file_contains_content_that_gc_deleted_before_the_purge(
        self, stack: Stack, tmp_path: Path
    ) -> None:
        assert isinstance(stack.connector, MemoryConnector)
        stack.connector.put("secret.md", f"Rome, says {COLLECTED}.".encode())
        stack.sync()
        stack.connector.put("secret.md", SECRET)
        stack.sync()
        collect(stack.connection, Retention(1, 0), NOW_MS)
        purged(stack)
        assert files_with(tmp_path, COLLECTED) == []

    def test_no_file_contains_a_vector_of_the_purged_document(
        self, stack: Stack, tmp_path: Path
    ) -> None:
        vectors = [
            bytes(row[0])
            for row in stack.connection.execute(
                "SELECT s.vectors FROM question_set AS s JOIN passage AS p ON p.id = s.passage"
                " WHERE p.text LIKE ?",
                [f"%{TEXT}%"],
            )
        ]
        stack.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert vectors and all(vector in (tmp_path / "s.db").read_bytes() for vector in vectors)
        purged(stack)
        assert not any(vector in (tmp_path / "s.db").read_bytes() for vector in vectors)

    def test_a_reader_in_the_way_is_reported_and_a_second_purge_finishes(
        self, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("store.engines.sqlite.space._TRIES", 1)
        reader = open_reader(tmp_path / "s.db")
        with snapshot(reader):
            graph_at(reader, 1)
            assert not purged(stack).erased
        again = purge(
            stack.connection, request_purge(stack.connection, stack.source.id, "secret.md", NOW_MS)
        )
        assert again.erased and again.revisions == 0
        assert files_with(tmp_path, TEXT) == []

    def test_a_file_without_a_pointer_map_is_rewritten_and_has_one_then(
        self, stack: Stack, tmp_path: Path
    ) -> None:
        stack.connection.execute("PRAGMA auto_vacuum = NONE")
        stack.connection.execute("VACUUM")
        assert purged(stack).erased
        assert files_with(tmp_path, TEXT) == []
        assert stack.connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)

    def test_the_file_is_still_one_that_shrinks_in_steps(self, stack: Stack) -> None:
        purged(stack)
        assert stack.connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


class TestTheVersions:
    def test_no_version_has_the_document_or_its_passages(self, stack: Stack) -> None:
        result = purged(stack)
        assert result.versions == (1, 2, 3, 4)
        assert result.revisions == 3
        for rows in graphs(stack.connection).values():
            assert {row[1] for row in rows["documents"]} == {"other.md"}
            assert not any(TEXT in str(row[2]) for row in rows["passages"])

    def test_every_invariant_holds(self, stack: Stack) -> None:
        purged(stack)
        assert check(stack.connection, deep=True) == []

    @pytest.mark.parametrize("factor", [0.0, 0.2, 1.0])
    def test_a_past_version_keeps_its_other_edges(self, tmp_path: Path, factor: float) -> None:
        files = MemoryConnector(
            {"a.md": OTHER, "b.md": SECRET, "c.md": OTHER[7:] + b"\nNero met Ada."}
        )
        stack = Stack(tmp_path / "f.db", files, budget_factor=factor)
        stack.sync()
        files.put("d.md", b"# Ada\n\nAda met Nero in Rome.\n")
        stack.sync()
        before = graphs(stack.connection)
        result = purged(stack, "b.md")
        assert check(stack.connection, deep=True) == []
        for number in (1, 2):
            after = graph_at(stack.connection, number)
            left = {row[0] for row in after["questions"]}
            for rows in ("matches", "edges"):
                assert after[rows] == [
                    row for row in before[number][rows] if {row[0], row[1]} <= left
                ]
        assert result.matches > 0

    def test_a_shared_passage_stays_where_the_other_document_held_it(self, stack: Stack) -> None:
        result = purged(stack)
        assert result.held_by == (("notes", "other.md"),)
        having = [
            number
            for number, rows in graphs(stack.connection).items()
            if any(SHARED in str(row[2]) for row in rows["passages"])
        ]
        assert having == [4, 5]

    def test_a_purge_of_a_deleted_document_leaves_the_head_unchanged(self, stack: Stack) -> None:
        stack.writer.apply(Batch("gone", gone=((stack.source.id, "secret.md"),)))
        before = graph_at(stack.connection, 5)
        purge(
            stack.connection, request_purge(stack.connection, stack.source.id, "secret.md", NOW_MS)
        )
        assert graph_at(stack.connection, 5) == before

    def test_a_purge_also_changes_tagged_versions(self, stack: Stack) -> None:
        purged(stack)
        assert read_version(stack.connection, 1).documents == 1

    def test_versions_without_the_purged_document_are_unchanged(self, stack: Stack) -> None:
        assert isinstance(stack.connector, MemoryConnector)
        stack.connector.put("late.md", b"# Late\n\nAda met Babbage.\n")
        stack.sync()
        before = graphs(stack.connection)
        purged(stack, "late.md")
        assert {n: g for n, g in graphs(stack.connection).items() if n < 5} == {
            number: before[number] for number in (1, 2, 3, 4)
        }

    def test_a_purged_version_can_be_restored(self, stack: Stack) -> None:
        purged(stack)
        made = stack.restore(1)
        assert made is not None and made.documents == 1
        assert check(stack.connection, deep=True) == []

    def test_a_sync_after_a_purge_gives_the_same_graph_as_a_new_index(
        self, stack: Stack, tmp_path: Path
    ) -> None:
        assert isinstance(stack.connector, MemoryConnector)
        purged(stack)
        stack.connector.put("new.md", SHARED_PASSAGE.encode() + b"\n\nNero met Ada.")
        stack.sync()
        left = {p: data for p, data in stack.connector.files.items() if p != "secret.md"}
        fresh = Stack(tmp_path / "fresh.db", MemoryConnector(left))
        fresh.sync()
        assert graph_at(stack.connection, 6) == graph_at(fresh.connection, 1)


class TestTheSource:
    def test_scans_skip_a_purged_file_until_purge_again(self, stack: Stack) -> None:
        purged(stack)
        stack.sync()
        assert stack.head.id == 5
        assert isinstance(stack.connector, MemoryConnector)
        stack.connector.put("secret.md", SECRET + b"Edited.")
        stack.sync()
        assert stack.head.id == 5
        assert read_excluded_paths(stack.connection, stack.source.id) == {"secret.md"}
        assert include_again(stack.connection, stack.source.id, "secret.md")
        assert not include_again(stack.connection, stack.source.id, "secret.md")
        stack.sync()
        assert stack.head.documents == 2

    def test_a_purged_item_that_is_deleted_changes_nothing(self, stack: Stack) -> None:
        purged(stack)
        assert isinstance(stack.connector, MemoryConnector)
        stack.connector.remove("secret.md")
        stack.sync()
        assert stack.head.id == 5

    def test_a_document_in_force_is_refused(self, stack: Stack) -> None:
        before = graphs(stack.connection)
        with pytest.raises(PurgeRefused, match="newest version"):
            purge(stack.connection, Purge(stack.source.id, "secret.md"))
        assert graphs(stack.connection) == before
        assert not read_excluded_paths(stack.connection, stack.source.id)

    def test_an_unknown_path_is_refused(self, stack: Stack) -> None:
        with pytest.raises(PurgeRefused, match="the document was never indexed"):
            purge(
                stack.connection,
                request_purge(stack.connection, stack.source.id, "typo.md", NOW_MS),
            )

    def test_no_row_about_the_purged_path_remains(self, stack: Stack) -> None:
        purged(stack)
        for table in ("seen", "pin", "document"):
            assert stack.connection.execute(
                f"SELECT count(*) FROM {table} WHERE path = 'secret.md'"
            ).fetchone() == (0,)


class TestManyRevisions:
    """More than one transaction removes: each leaves every version sound."""

    @pytest.fixture(scope="class")
    @classmethod
    def base(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """secret.md with a revision in each of 230 versions, beside a page that stays."""
        files = MemoryConnector({"secret.md": SECRET, "other.md": OTHER})
        path = tmp_path_factory.mktemp("edited") / "s.db"
        made = Stack(path, files, budget_factor=0.3)
        made.sync()
        for number in range(229):
            files.put("secret.md", SECRET + f"\nBrutus met Nero{number} in Rome.\n".encode())
            made.sync()
        made.writer.apply(Batch("", gone=((made.source.id, "secret.md"),)))
        assert any(
            read_version(made.connection, n).edge_threshold
            for n in list_kept_versions(made.connection)
        )
        made.close()
        return path

    @pytest.fixture
    def edited(self, base: Path, tmp_path: Path) -> Iterator[Stack]:
        files = MemoryConnector({"other.md": OTHER})
        made = Stack(copy_database(base, tmp_path / "s.db"), files, budget_factor=0.3)
        yield made
        made.close()

    def test_versions_are_sound_after_each_and_a_second_purge_ends_the_first(
        self, edited: Stack
    ) -> None:
        class Killed(Exception):
            pass

        def between() -> None:
            assert check(edited.connection, deep=True) == []
            raise Killed

        left = {n: without(rows, "secret.md") for n, rows in graphs(edited.connection).items()}
        with pytest.raises(Killed):
            purge(
                edited.connection,
                request_purge(edited.connection, edited.source.id, "secret.md", NOW_MS),
                between,
            )
        assert purge(
            edited.connection,
            request_purge(edited.connection, edited.source.id, "secret.md", NOW_MS),
        ).erased
        assert check(edited.connection, deep=True) == []
        for number, rows in graphs(edited.connection).items():
            assert {**rows, "counts": []} == {**left[number], "counts": []}

    def test_edits_during_a_purge_are_kept(self, edited: Stack, tmp_path: Path) -> None:
        """Even where it says what the purged document said."""
        assert isinstance(edited.connector, MemoryConnector)
        files = edited.connector

        def between() -> None:
            if "new.md" not in files.files:
                files.put("new.md", SECRET)
                edited.preempt("new.md")

        purge(
            edited.connection,
            request_purge(edited.connection, edited.source.id, "secret.md", NOW_MS),
            between,
        )
        assert check(edited.connection, deep=True) == []
        assert verify_matches(edited.connection) == []
        assert files_with(tmp_path, TEXT)
        assert [row[1] for row in graph_at(edited.connection, edited.head.id)["documents"]] == [
            "new.md",
            "other.md",
        ]
