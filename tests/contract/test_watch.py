"""The real watchdog on a real folder: what raises a hint, what does not, what ends in None."""

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from hopsyncd.ingest.watch import FolderWatcher
from tests.fakes.nested import nest, remove_nested

DEADLINE_S = 60.0


class Hints:
    """Collects hints; `told` holds their ids, None included."""

    def __init__(self) -> None:
        self.calls: list[list[str] | None] = []

    def __call__(self, hint: Sequence[str] | None) -> None:
        self.calls.append(None if hint is None else list(hint))

    @property
    def told(self) -> set[str | None]:
        return {id_ for call in self.calls for id_ in ([None] if call is None else call)}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/old.md").write_text("old")
    return tmp_path / "root"


@pytest.fixture
def hints() -> Hints:
    return Hints()


@pytest.fixture
def watcher(root: Path, hints: Hints) -> Iterator[FolderWatcher]:
    watcher = FolderWatcher(debounce_s=0.1, check_every_s=0.2)
    watcher.watch(root, hints)
    yield watcher
    watcher.stop()


@pytest.mark.usefixtures("watcher")
class TestWhatRaisesAHint:
    def test_a_new_an_edited_and_a_removed_file_are_reported(
        self, root: Path, hints: Hints
    ) -> None:
        (root / "a/new.md").write_text("new")
        (root / "a/old.md").write_text("edited")
        wait_for(lambda: {"a/new.md", "a/old.md"} <= hints.told)
        hints.calls.clear()
        (root / "a/old.md").unlink()
        wait_for(lambda: hints.told == {"a/old.md"})

    def test_an_atomic_save_is_reported(self, root: Path, hints: Hints) -> None:
        (root / "a/old.md.tmp").write_text("edited")
        (root / "a/old.md.tmp").rename(root / "a/old.md")
        wait_for(lambda: {"a/old.md", "a/old.md.tmp"} <= hints.told)

    def test_a_name_with_a_newline_is_reported(self, root: Path, hints: Hints) -> None:
        (root / "two\nlines.md").write_text("x")
        wait_for(lambda: "two\nlines.md" in hints.told)

    def test_a_renamed_folder_gives_both_names(self, root: Path, hints: Hints) -> None:
        (root / "a").rename(root / "b")
        wait_for(lambda: {"a", "b"} <= hints.told)
        assert all(map(names_no_part_of_another, hints.calls))
        (root / "b/old.md").write_text("still watched")
        wait_for(lambda: "b/old.md" in hints.told)

    def test_a_folder_moved_in_or_out_is_reported(self, root: Path, hints: Hints) -> None:
        (root.parent / "in/deep").mkdir(parents=True)
        (root.parent / "in/deep/x.md").write_text("x")
        (root.parent / "in").rename(root / "in")
        wait_for(lambda: "in" in hints.told)
        assert all(map(names_no_part_of_another, hints.calls))
        (root / "in/deep/x.md").write_text("watched now")
        wait_for(lambda: "in/deep/x.md" in hints.told)
        hints.calls.clear()
        (root / "in").rename(root.parent / "out")
        wait_for(lambda: "in" in hints.told)

    def test_a_changed_mode_is_reported(self, root: Path, hints: Hints) -> None:
        (root / "a/old.md").chmod(0o600)
        wait_for(lambda: hints.told == {"a/old.md"})

    def test_our_own_reads_cause_no_change_event(self, root: Path, hints: Hints) -> None:
        for _ in range(3):
            assert (root / "a/old.md").read_text() == "old"
            list((root / "a").iterdir())
        (root / "marker.md").write_text("x")
        wait_for(lambda: "marker.md" in hints.told)
        assert hints.told == {"marker.md"}

    def test_the_window_is_counted_from_the_first_event(self, root: Path, hints: Hints) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(hints.calls) < 4:
            assert time.monotonic() < deadline, "hints wait until the file rests"
            (root / "a/old.md").write_text("busy")
            time.sleep(0.01)


def test_no_file_is_missed_in_a_burst_of_changes(root: Path, hints: Hints) -> None:
    watcher = FolderWatcher(debounce_s=0.1, max_paths=500)
    watcher.watch(root, hints)
    for folder in range(30):
        (root / f"b{folder % 5}/c{folder}").mkdir(parents=True)
        for number in range(100):
            (root / f"b{folder % 5}/c{folder}/{number}.md").touch()
    files = {str(path.relative_to(root)) for path in root.rglob("*.md")} - {"a/old.md"}
    before = len(hints.calls)
    (root / "last.md").touch()
    wait_for(lambda: any(covers(call, "last.md") for call in hints.calls[before:]))
    watcher.stop()
    missed = {id_ for id_ in files if not any(covers(call, id_) for call in hints.calls)}
    assert not missed
    assert all(call is None or len(call) <= 500 for call in hints.calls)


def names_no_part_of_another(call: list[str] | None) -> bool:
    """Whether a folder of the hint stands for what is in it. On a busy machine the events of one
    move come in several hints."""
    return call is None or not any(
        covers([one], other) for one in call for other in {*call} - {one}
    )


def covers(call: list[str] | None, id_: str) -> bool:
    return call is None or any(id_ == hint or id_.startswith(hint + "/") for hint in call)


def test_too_many_paths_become_everything_and_the_newest(root: Path, hints: Hints) -> None:
    watcher = FolderWatcher(debounce_s=2.0, max_paths=20)
    watcher.watch(root, hints)
    (root / "first.md").touch()
    wait_for(lambda: "first.md" in hints.told)
    (root / "first.md").touch()  # which is collected for, and with it all that follows
    for number in range(50):
        (root / f"{number}.md").touch()
    wait_for(lambda: {None, "49.md"} <= hints.told)
    watcher.stop()
    assert "0.md" not in hints.told


def test_the_first_event_on_an_idle_path_is_reported_at_once_and_later_events_together(
    root: Path, hints: Hints
) -> None:
    (root.parent / "linked").touch()
    watcher = FolderWatcher(debounce_s=3.0)
    watcher.watch(root, hints)
    began_s = time.monotonic()
    for name in ("first.md", "second.md"):
        (root / name).hardlink_to(root.parent / "linked")  # one event, and so no second hint
        wait_for(lambda name=name: name in hints.told)  # type: ignore[misc]
    assert time.monotonic() - began_s < 3.0, "they were collected"
    (root / "first.md").write_text("again")
    wait_for(lambda: len(hints.calls) == 3)
    assert time.monotonic() - began_s >= 3.0
    watcher.stop()
    assert hints.calls == [["first.md"], ["second.md"], ["first.md"]]


def test_a_storm_of_events_becomes_few_change_events(root: Path, hints: Hints) -> None:
    watcher = FolderWatcher(debounce_s=0.5)
    watcher.watch(root, hints)
    for burst in range(4):
        for number in range(75):
            (root / f"{burst}x{number}.md").touch()
        time.sleep(0.1)
    wait_for(lambda: "3x74.md" in hints.told)
    watcher.stop()
    assert len(hints.calls) < 10


def test_skipped_paths_cause_no_change_event(root: Path, hints: Hints) -> None:
    watcher = FolderWatcher(debounce_s=0.1, skip=lambda id_: id_.endswith(".tmp"))
    watcher.watch(root, hints)
    (root / "x.tmp").touch()
    (root / "x.md").touch()
    wait_for(lambda: bool(hints.calls))
    watcher.stop()
    assert hints.told == {"x.md"}


def test_a_root_behind_a_link_is_watched(root: Path, hints: Hints) -> None:
    (root.parent / "link").symlink_to("root")
    watcher = FolderWatcher(debounce_s=0.1)
    watcher.watch(root.parent / "link", hints)
    (root / "x.md").touch()
    wait_for(lambda: hints.told == {"x.md"})
    watcher.stop()


def test_a_missing_root_is_watched_once_it_is_there(tmp_path: Path, hints: Hints) -> None:
    watcher = FolderWatcher(debounce_s=0.1, check_every_s=0.1)
    watcher.watch(tmp_path / "later", hints)
    assert not watcher.describe_status().watching
    assert "no such file" in watcher.describe_status().why
    assert watcher.describe_status().hint
    (tmp_path / "later").mkdir()
    wait_for(lambda: hints.calls == [None])
    assert watcher.describe_status().watching
    (tmp_path / "later/x.md").touch()
    wait_for(lambda: "x.md" in hints.told)
    watcher.stop()


@pytest.mark.usefixtures("watcher")
@pytest.mark.parametrize("how", ["moved away", "removed"])
def test_a_root_that_is_removed_and_created_again_is_watched(
    root: Path, hints: Hints, how: str
) -> None:
    if how == "moved away":
        root.rename(root.with_name("moved"))
    else:
        (root / "a/old.md").unlink()
        (root / "a").rmdir()
        root.rmdir()
    wait_for(lambda: None in hints.told)
    hints.calls.clear()
    root.mkdir()
    wait_for(lambda: None in hints.told)
    (root / "x.md").touch()
    wait_for(lambda: "x.md" in hints.told)


def test_a_dead_emitter_is_noticed_and_replaced(root: Path, hints: Hints) -> None:
    made: list[BaseObserver] = []

    def observer() -> BaseObserver:
        made.append(Observer())
        return made[-1]

    watcher = FolderWatcher(debounce_s=0.1, check_every_s=0.1, observer=observer)
    watcher.watch(root, hints)
    for emitter in made[0].emitters:
        emitter.stop()
    wait_for(lambda: len(made) == 2 and watcher.describe_status().watching)
    assert None in hints.told
    (root / "x.md").touch()
    wait_for(lambda: "x.md" in hints.told)
    watcher.stop()


@pytest.mark.usefixtures("watcher")
def test_an_overflow_that_watchdog_only_logs_reports_the_whole_source(hints: Hints) -> None:
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed")
    wait_for(lambda: hints.calls == [None])


def test_running_out_of_watches_falls_back_to_scans(root: Path, hints: Hints) -> None:
    def observer() -> BaseObserver:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    watcher = FolderWatcher(observer=observer)
    watcher.watch(root, hints)
    status = watcher.describe_status()
    watcher.stop()
    assert not status.watching
    assert "limit" in status.why
    assert "max_user_watches" in status.hint


def test_running_out_of_watches_for_subfolders_is_noticed(root: Path, hints: Hints) -> None:
    """Watchdog passes over them in silence: only a request for one more watch tells."""
    full = threading.Event()

    class Limited(Observer):  # type: ignore[misc, valid-type]
        def schedule(self, *args: object, recursive: bool = False, **options: object) -> object:
            if full.is_set() and not recursive:
                raise OSError(errno.ENOSPC, "inotify watch limit reached")
            return super().schedule(*args, recursive=recursive, **options)

    watcher = FolderWatcher(debounce_s=0.1, observer=Limited)
    watcher.watch(root, hints)
    assert watcher.describe_status().watching
    full.set()
    (root / "one-too-many").mkdir()
    wait_for(lambda: not watcher.describe_status().watching)
    watcher.stop()
    assert None in hints.told


def test_a_failing_receiver_is_called_again_with_everything(root: Path) -> None:
    calls: list[Sequence[str] | None] = []

    def failing_once(hint: Sequence[str] | None) -> None:
        calls.append(hint)
        if len(calls) == 1:
            raise RuntimeError("the receiver failed")

    watcher = FolderWatcher(debounce_s=0.1, check_every_s=0.1)
    watcher.watch(root, failing_once)
    (root / "x.md").touch()
    wait_for(lambda: len(calls) >= 2)
    watcher.stop()
    assert calls[:2] == [["x.md"], None]


def test_no_event_is_sent_after_the_watcher_stops(root: Path, hints: Hints) -> None:
    watcher = FolderWatcher(debounce_s=0.2)
    watcher.watch(root, hints)
    (root / "x.md").touch()
    watcher.stop()
    told = [*hints.calls]
    (root / "y.md").touch()
    time.sleep(0.4)
    assert hints.calls == told
    assert not watcher.describe_status().watching
    with pytest.raises(RuntimeError):
        watcher.watch(root, hints)


class TestDeeplyNestedFolders:
    @pytest.fixture
    def deep(self, root: Path) -> Iterator[Path]:
        yield root
        remove_nested(root)

    @pytest.mark.parametrize("depth", [1200, 3000])
    def test_are_watched_up_to_the_depth_that_the_kernel_allows(
        self, deep: Path, hints: Hints, depth: int
    ) -> None:
        nest(deep, depth, {"deep.md": b"x"})
        watcher = FolderWatcher(debounce_s=0.1, check_every_s=0.2)
        watcher.watch(deep, hints)
        inner = "d/" * 900 + "new.md"
        (deep / inner).write_text("x")
        wait_for(lambda: inner in hints.told)
        assert watcher.describe_status().watching
        assert ("too deep to be watched" in watcher.describe_status().why) == (depth > 2000)
        watcher.stop()

    def test_that_move_in_do_not_end_the_watch(
        self, deep: Path, hints: Hints, watcher: FolderWatcher
    ) -> None:
        outside = deep.parent / "outside"
        outside.mkdir()
        nest(outside, 3000, {"deep.md": b"x"})
        (outside / "d").rename(deep / "d")
        wait_for(lambda: "d" in hints.told)
        wait_for(lambda: "too deep to be watched" in watcher.describe_status().why)
        (deep / "d").rename(deep / "e")
        wait_for(lambda: "e" in hints.told)
        (deep / "after.md").write_text("x")
        wait_for(lambda: "after.md" in hints.told)
        assert watcher.describe_status().watching


def test_an_unexpected_error_of_the_watch_is_a_status(root: Path, hints: Hints) -> None:
    def broken() -> BaseObserver:
        raise RecursionError("maximum recursion depth exceeded")

    watcher = FolderWatcher(debounce_s=0.1, check_every_s=0.1, observer=broken)
    watcher.watch(root, hints)
    assert not watcher.describe_status().watching
    assert "an unexpected error (see the log)" in watcher.describe_status().why
    watcher.stop()
