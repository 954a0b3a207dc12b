"""Query workers read the index that the daemon saves."""

import time
from pathlib import Path

import pytest

from hopsyncd.api import query_workers
from hopsyncd.api.query_process import UpdateMessage, WorkerSettings, _Copy
from hopsyncd.api.query_workers import QueryWorkers
from hopsyncd.config.configuration import Config
from hopsyncd.ingest import saved_index
from hopsyncd.ingest.index_loading import follow
from hopsyncd.ingest.saved_index import SavedIndex
from store.changes import stamp
from store.transactions import snapshot
from tests.fakes.query_desk import HOP, NOBODY, Desk


def test_a_worker_reads_an_index_that_was_saved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the rows that came since its start are not in its own memory."""
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)
    desk, folder = Desk(tmp_path), tmp_path / "index"
    connection, generation = desk.stack.connection, desk.stack.maker.generation
    saved = SavedIndex(folder)
    index = saved.load(connection, generation, desk.stack.head.id)

    def save() -> None:
        with snapshot(connection):
            follow(connection, index, generation.encoder, index.version, desk.stack.head.id)
        saved.save(stamp(connection, index.version), index, generation.encoder)

    save()
    copy = _Copy(WorkerSettings(tmp_path / "s.db", folder, 1.0), desk.given)
    for number in range(2):
        desk.files.put(f"{number}.md", f"# Oslo {number}\n\nCaesar met Oslo.\n".encode())
        desk.sync()
        if number:
            save()
        before = copy._index
        copy.follow(desk.stack.head.id)
        assert (copy._index is not before) == bool(number)
        message = desk.message(desk.stack.head.id, HOP, NOBODY)
        assert copy.answer(message) == desk.alone()
        copy.release_memory()
        assert copy.answer(message) == desk.alone()
    desk.workers.close()
    desk.stack.close()


def save_newest(desk: Desk, saved: SavedIndex) -> None:
    """Save the index of the newest version."""
    connection, generation = desk.stack.connection, desk.stack.maker.generation
    newest = desk.stack.head.id
    index = saved.load(connection, generation, newest)
    saved.save(stamp(connection, newest), index, generation.encoder)


def test_workers_check_no_files_that_the_daemon_has_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)
    desk, folder = Desk(tmp_path), tmp_path / "index"
    saved = SavedIndex(folder)
    save_newest(desk, saved)
    checks, compute = list[str](), saved_index._compute_digests

    def count_check(parts: saved_index.Parts) -> dict[str, str]:
        checks.append(saved.checked)
        return compute(parts)

    settings = WorkerSettings(tmp_path / "s.db", folder, 1.0, saved.checked)
    with monkeypatch.context() as patch:
        patch.setattr(saved_index, "_compute_digests", count_check)
        copy = _Copy(settings, desk.given)
    for number, is_told in enumerate((True, False)):
        desk.files.put(f"{number}.md", f"# Oslo {number}\n\nCaesar met Oslo.\n".encode())
        desk.sync()
        save_newest(desk, saved)
        newest = desk.stack.head.id
        with monkeypatch.context() as patch:
            patch.setattr(saved_index, "_compute_digests", count_check)
            copy.follow(newest, saved.checked if is_told else "")
        assert bool(checks) != is_told
        assert copy.answer(desk.message(newest, HOP, NOBODY)) == desk.alone()
    desk.workers.close()
    desk.stack.close()


def test_the_daemon_tells_workers_which_files_it_has_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()

    def refuse(settings: WorkerSettings) -> None:
        told.append(settings.checked)
        raise OSError("no worker is needed")

    monkeypatch.setattr(query_workers, "_start_worker", refuse)
    checked = iter("abc")
    settings = WorkerSettings(tmp_path / "s.db", tmp_path / "index", 1.0)
    workers = QueryWorkers(settings, 1, 20.0, find_checked=lambda: next(checked))
    for _ in range(3):
        workers._start()
    assert told == [*"abc"]


def test_an_update_says_which_files_the_daemon_has_checked(tmp_path: Path) -> None:
    said, saved = list[str](), SavedIndex(tmp_path)
    saved._checked, saved._checked_s = "a", time.monotonic()

    class Behind:
        version, busy = 1, False

        def exchange(self, message: UpdateMessage, patience_s: float) -> int:
            said.append(message.checked)
            return message.version

    config = Config.model_validate(
        {"daemon": {"data_dir": str(tmp_path)}, "limits": {"workers": 1}}
    )
    workers = query_workers.make_query_workers(config, saved)
    workers._workers.append(Behind())  # type: ignore[arg-type]
    with workers._changed:
        workers._update_in_background(2)
        assert workers._changed.wait_for(lambda: workers._workers[0].version == 2, 20)
        workers._workers.clear()
    workers.close()
    assert said == ["a"]


def test_a_worker_behind_its_saved_index_applies_no_change_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query at an older version may let the worker read files of a newer one."""
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)
    desk, folder = Desk(tmp_path), tmp_path / "index"
    connection, generation = desk.stack.connection, desk.stack.maker.generation
    saved = SavedIndex(folder)
    save_newest(desk, saved)
    copy = _Copy(WorkerSettings(tmp_path / "s.db", folder, 1.0), desk.given)
    desk.files.put("oslo.md", b"# Oslo\n\nCaesar met Oslo. Rome met Paris in Oslo.\n")
    desk.sync()
    copy.follow(desk.stack.head.id)
    for number in range(2):
        desk.files.put(f"{number}.md", f"# Bern {number}\n\nCaesar met Bern.\n".encode())
        desk.files.put("rome.md", f"# Rome\n\nCaesar ruled Rome. {number}\n".encode())
        desk.sync()
    newest = desk.stack.head.id
    index = saved.load(connection, generation, newest)
    saved.save(stamp(connection, newest), index, generation.encoder)
    for number in (newest - 1, newest):
        copy.follow(number)
        assert copy.version == number
        assert len(copy._index.matches) == len(index.matches)
        message = desk.message(number, HOP, NOBODY)
        assert copy.answer(message) == desk.alone(number)
    desk.workers.close()
    desk.stack.close()
