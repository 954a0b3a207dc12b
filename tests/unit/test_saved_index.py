"""The index that the daemon saves, and loads at its next start or in another process."""

import json
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from hopsyncd.index.arrays import Column
from hopsyncd.index.frozen_index import FrozenIndex
from hopsyncd.ingest import index_loading, saved_index
from hopsyncd.ingest.index_loading import follow
from hopsyncd.ingest.read import Batch, identify_rules
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.version_writer import VersionWriter
from store.changes import stamp
from store.content import read_sets_by_id
from store.contract import Connection
from store.gc import Retention, collect
from store.purge import purge, request_purge
from store.records import QuestionSet, SetId
from store.transactions import snapshot
from tests.fakes.dump import served_by
from tests.fakes.indexed import snapshot_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack, fake_maker

ROME = b"---\naliases: [Eternal City]\n---\n# Rome\n\nCaesar met Brutus in [Paris](b.md).\n"
PARIS = b"# Paris\n\nCaesar called Paris Lutetia.\n"


class Kept:
    """A stack, and writers that begin with what the one before kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "index"
        self.files = MemoryConnector({"a.md": ROME, "b.md": PARIS})
        self.stack = Stack(folder / "s.db", self.files)
        self.stack.sync()

    def started(self) -> VersionWriter:
        self.saved = SavedIndex(self.folder)
        return VersionWriter(
            self.stack.connection,
            fake_maker(),
            rules=identify_rules(12),
            budget_factor=1.0,
            now_ms=lambda: 0,
            saved=self.saved,
        )

    def served(self, writer: VersionWriter) -> dict[str, object]:
        return served_by(writer.make_snapshot(self.stack.head))

    @property
    def expected(self) -> dict[str, object]:
        """What an index from the store alone serves."""
        self.stack.writer.forget_index()
        return self.served(self.stack.writer)

    @property
    def is_there(self) -> bool:
        return (self.folder / "manifest.json").exists()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)  # each keep_index() saves
    made = Kept(tmp_path)
    writer = made.started()
    assert made.served(writer) == made.expected
    writer.keep_index()
    assert made.is_there
    yield made
    made.stack.close()


def test_the_saved_index_is_served_after_a_restart(kept: Kept) -> None:
    again = kept.started()
    assert kept.served(again) == kept.expected
    assert isinstance(again.index.vectors.remainders.base, np.memmap)


def test_a_saved_index_is_brought_up_to_date_and_past_versions_stay(kept: Kept) -> None:
    then = kept.expected
    kept.files.put("b.md", PARIS + b"\nParis has a tower.\n")
    kept.files.put("c.md", b"Oslo met Caesar.\n")
    kept.files.remove("a.md")
    kept.stack.sync()
    again = kept.started()
    assert kept.served(again) == kept.expected
    assert {**served_by(snapshot_at(again.index, 1)), "edges": 0} == {**then, "edges": 0}
    again.keep_index()
    assert kept.served(kept.started()) == kept.expected


def test_an_index_behind_the_head_is_saved_with_its_version(kept: Kept) -> None:
    behind = kept.started()
    assert behind.index.version == 1
    kept.files.put("b.md", PARIS + b"\nParis has a tower.\n")
    kept.stack.sync()
    behind.keep_index()
    assert kept.served(kept.started()) == kept.expected


def test_an_index_that_has_grown_is_saved_at_rest_and_then_uses_its_file(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = kept.started()
    kept.served(writer)
    monkeypatch.setattr(saved_index, "_FEW_ROWS", 0)
    writer.release_memory()
    assert not writer.is_saving_index  # nothing has changed
    kept.stack.path.use_writer(writer, kept.stack.versions.append)
    kept.files.put("c.md", b"Oslo met Caesar.\n")
    kept.stack.sync()
    in_memory = writer.index.passage_intervals.died
    writer.release_memory()
    assert writer.is_saving_index
    while kept.saved.is_saving:
        time.sleep(0.001)
    writer.release_memory()
    assert not writer.is_saving_index
    assert kept.saved.version == kept.stack.head.id
    assert not np.shares_memory(writer.index.passage_intervals.died, in_memory)
    assert kept.served(writer) == kept.expected


def test_a_save_for_which_the_disk_has_no_room_leaves_the_files_saved_before(kept: Kept) -> None:
    names = {file.name for file in kept.folder.iterdir()}
    manifest = (kept.folder / "manifest.json").read_bytes()
    writer = kept.started()
    kept.files.put("c.md", b"Oslo met Caesar.\n")
    kept.stack.sync()
    kept.served(writer)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with capture_logs() as logged:
            writer.keep_index()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry["event"] for entry in logged] == ["the index was not saved"]
    assert {file.name for file in kept.folder.iterdir()} == names
    assert (kept.folder / "manifest.json").read_bytes() == manifest
    again = kept.started()
    assert kept.served(again) == kept.served(writer) == kept.expected
    assert kept.saved.version == 1, "read from the files"


def test_a_reader_keeps_its_index_while_another_is_loaded_and_grows(kept: Kept) -> None:
    saved = SavedIndex(kept.folder)
    generation, connection = kept.stack.maker.generation, kept.stack.connection
    first = saved.load(connection, generation, 1)
    was = served_by(snapshot_at(first, 1))
    for _ in range(2):
        other = saved.load(connection, generation, 1)
        other.vectors.append(np.full((600, first.vectors.dimensions), 7, dtype=np.int16))
        other.vectors.remainders[:5] = 9
    saved.forget()
    assert served_by(snapshot_at(first, 1)) == was


def test_a_saved_index_uses_its_file_and_does_not_change_it(kept: Kept, tmp_path: Path) -> None:
    generation, connection = kept.stack.maker.generation, kept.stack.connection
    saved = SavedIndex(tmp_path / "other")
    index = saved.load(connection, generation, 1)
    reader = snapshot_at(index, 1)
    was = served_by(reader)
    in_memory = index.passage_intervals.died
    saved.save(stamp(connection, index.version), index, generation.encoder)
    assert not np.shares_memory(index.passage_intervals.died, in_memory)
    assert served_by(reader) == served_by(snapshot_at(index, 1)) == was
    index.passage_intervals.died[:] = 1
    other = SavedIndex(saved.folder, is_owned=False).load(connection, generation, 1)
    assert served_by(snapshot_at(other, 1)) == was


def test_another_process_reads_the_saved_index_and_changes_no_file(kept: Kept) -> None:
    was = {file.name: file.read_bytes() for file in kept.folder.iterdir()}
    generation, connection = kept.stack.maker.generation, kept.stack.connection
    expected = served_by(snapshot_at(kept.stack.writer.index, 1))
    for damage in (lambda path: None, flip):
        damage(kept.folder / "texts.json")
        was["texts.json"] = (kept.folder / "texts.json").read_bytes()
        other = SavedIndex(kept.folder, is_owned=False).load(connection, generation, 1)
        assert served_by(snapshot_at(other, 1)) == expected
        other.vectors.append(np.full((600, generation.dimensions), 7, dtype=np.int16))
        other.vectors.remainders[:5] = 9
        assert {file.name: file.read_bytes() for file in kept.folder.iterdir()} == was


def test_another_process_checks_only_files_that_the_owner_has_not_checked(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation, connection = kept.stack.maker.generation, kept.stack.connection
    owner, checks, compute = SavedIndex(kept.folder), list[int](), saved_index._compute_digests
    expected = served_by(snapshot_at(owner.load(connection, generation, 1), 1))
    assert owner.checked

    def count_check(parts: saved_index.Parts) -> dict[str, str]:
        checks.append(len(parts))
        return compute(parts)

    def delete_manifest(self: SavedIndex, name: str, rows: int, width: int) -> np.ndarray:
        (kept.folder / "manifest.json").unlink(missing_ok=True)
        return map_file(self, name, rows, width)

    def is_checked(trusted: str) -> bool:
        checks.clear()
        other = SavedIndex(kept.folder, is_owned=False, trusted=trusted)
        assert served_by(snapshot_at(other.load(connection, generation, 1), 1)) == expected
        return bool(checks)

    monkeypatch.setattr(saved_index, "_compute_digests", count_check)
    assert is_checked("")
    assert is_checked(owner.checked[::-1])
    assert not is_checked(owner.checked)
    map_file = SavedIndex._map_file
    monkeypatch.setattr(SavedIndex, "_map_file", delete_manifest)  # a save begins meanwhile
    assert is_checked(owner.checked)


def test_files_that_were_saved_count_as_checked(kept: Kept) -> None:
    generation, connection = kept.stack.maker.generation, kept.stack.connection
    owner = SavedIndex(kept.folder)
    index = owner.load(connection, generation, 1)
    loaded = owner.checked
    kept.files.put("new.md", b"Oslo met Caesar of Rome.\n")
    kept.stack.sync()
    with snapshot(connection):
        follow(connection, index, generation.encoder, 1, 2)
    owner.save(stamp(connection, 2), index, generation.encoder)
    manifest = json.loads((kept.folder / "manifest.json").read_text("utf-8"))
    assert owner.checked == manifest["digest"] != loaded
    owner.forget()
    assert not owner.checked


def test_files_do_not_count_as_checked_for_more_than_an_hour(kept: Kept) -> None:
    owner = SavedIndex(kept.folder)
    owner.load(kept.stack.connection, kept.stack.maker.generation, 1)
    owner._checked_s -= 3500
    assert owner.checked
    owner._checked_s -= 200
    assert not owner.checked


def test_another_process_adds_a_quarter_of_the_rows_without_copying_the_vectors(kept: Kept) -> None:
    generation, connection = kept.stack.maker.generation, kept.stack.connection
    other = SavedIndex(kept.folder, is_owned=False).load(connection, generation, 1)
    mapped: list[np.ndarray] = [
        other.vectors.codes,
        other.vectors.remainders,
        other.vectors.passage_codes,
    ]
    on_disk = (kept.folder / "remainders.bin").stat().st_blocks * 512
    rows = on_disk // mapped[0][0].nbytes // 4 + 1024
    other.vectors.append(np.ones((rows, generation.dimensions), dtype=np.int16), range(rows))
    grown: list[np.ndarray] = [
        other.vectors.codes,
        other.vectors.remainders,
        other.vectors.passage_codes,
    ]
    for before, after in zip(mapped, grown, strict=True):
        assert np.shares_memory(before, after[: len(before)])
    assert (kept.folder / "remainders.bin").stat().st_size > on_disk


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if path.suffix != ".bin" else 0] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
@pytest.mark.parametrize(
    "name",
    [
        *("manifest.json", "columns.bin", "texts.json", "remainders.bin", "codes.bin"),
        "passage_codes.bin",
    ],
)
def test_a_damaged_saved_index_is_rebuilt(
    kept: Kept, name: str, damage: Callable[[Path], None]
) -> None:
    damage(kept.folder / name)
    assert kept.served(kept.started()) == kept.expected


@pytest.mark.parametrize(
    ("place", "damaged"),
    [
        (0, ">i4"),  # the bytes of the values are the same in this order
        (0, ",i4"),  # no type
        (3, 1 << 20),  # the spare capacity of the column reaches into the next columns
    ],
)
def test_an_index_is_rebuilt_if_a_bit_of_its_manifest_has_flipped(
    kept: Kept, place: int, damaged: object
) -> None:
    file = kept.folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["columns"]["terms_by_key:rows"][place] = damaged
    file.write_text(json.dumps(manifest))
    assert kept.served(kept.started()) == kept.expected
    assert not kept.is_there


def test_a_kill_during_saving_leaves_the_saved_index_or_none(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    expected, replace = kept.expected, Path.replace

    def die_after_columns(self: Path, target: Path) -> Path:
        if target.name != "columns.bin":
            raise Killed
        return replace(self, target)

    for at, by, is_there in (
        ("numpy.ascontiguousarray", killed, True),
        ("json.dumps", killed, True),
        ("pathlib.Path.replace", die_after_columns, False),
    ):
        writer = kept.started()
        assert kept.served(writer) == expected
        with monkeypatch.context() as patch:
            patch.setattr(at, by)
            with pytest.raises(Killed):
                writer.keep_index()
        assert kept.is_there == is_there
        assert kept.served(kept.started()) == expected


def test_saving_pauses_while_queries_run(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, paused_s = kept.started(), list[float]()
    kept.served(writer)
    monkeypatch.setattr(
        "hopsyncd.index.throttle._queries.pause", lambda _, worked_s: paused_s.append(worked_s)
    )
    writer.keep_index()
    assert len(paused_s) > 20


def test_edits_go_on_while_the_index_is_saved(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that saves waits at each column until the writer has committed an edit."""
    writer = kept.started()
    kept.served(writer)
    may_go_on, edits = threading.Semaphore(0), 4
    columns = FrozenIndex.list_columns

    def slow_columns(self: FrozenIndex) -> Iterator[tuple[str, Column]]:
        for number, named in enumerate(columns(self)):
            if number < edits:
                may_go_on.acquire()
            yield named

    monkeypatch.setattr(FrozenIndex, "list_columns", slow_columns)
    saved, stack = kept.saved, kept.stack
    stack.path.use_writer(writer, stack.versions.append)
    made = stamp(stack.connection, writer.index.version)
    saved.start_saving(made, writer.index, stack.maker.generation.encoder)
    for number in range(edits):
        assert saved.is_saving
        kept.files.put("b.md", PARIS + f"\nParis has {number + 2} towers.\n".encode())
        kept.files.put(f"new{number}.md", f"Oslo met Caesar{number} of Rome.\n".encode())
        if number == 2:
            kept.files.remove("a.md")
        stack.sync()
        may_go_on.release()
    saved.finish_saving()
    expected = kept.expected
    assert kept.served(writer) == expected  # by the columns of the file, and what came since
    assert saved.version == 1
    kept.files.put("last.md", b"Rome met Oslo.\n")
    stack.sync()
    assert kept.served(writer) == kept.expected
    assert kept.served(kept.started()) == kept.expected  # by the file, brought up to date


def test_after_a_garbage_collection_of_its_version_only_new_content_is_read(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.files.put("a.md", kept.files.files["a.md"] + b"\nOslo met Caesar.\n")
    kept.files.remove("b.md")
    kept.stack.sync()
    collect(kept.stack.connection, Retention(1, 0), 10_000_000_000)
    read = list[SetId]()

    def noting(connection: Connection, sets: Iterable[SetId]) -> Iterator[QuestionSet]:
        read.extend(sets := [*sets])
        return read_sets_by_id(connection, sets)

    monkeypatch.setattr(index_loading, "read_sets_by_id", noting)
    served = kept.served(kept.started())
    assert len(read) == 1
    assert served == kept.expected


def test_after_a_purge_the_index_is_rebuilt(kept: Kept) -> None:
    stack = kept.stack
    stack.writer.apply(Batch("gone", gone=((stack.source.id, "a.md"),)))
    purge(stack.connection, request_purge(stack.connection, stack.source.id, "a.md", 0))
    assert kept.served(kept.started()) == kept.expected


def test_forget_removes_the_saved_index(kept: Kept) -> None:
    kept.started().forget_index()
    assert not kept.folder.exists()
