"""Turns the operating system's file events into change events of the watched folders.

File events can be lost, duplicated or late. So a change event only says where a scan should look
first. The periodic scan finds all other changes. If it is unclear what has changed, the change
event contains None, which means "scan everything". watchdog's threads only add paths to a set.
"""

import errno
import logging
import os
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from watchdog import events
from watchdog.observers.api import BaseObserver

from connectors.folder import widen_changed_ids
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import FolderSource, SourceConfig
from hopsyncd.ingest.connector_setup import create_folder_connector
from hopsyncd.ingest.folder_observer import DeepObserver, create_observer

OnChange = Callable[[Sequence[str] | None], None]
"""Called with the changed files and folders: paths relative to the root, the newest change last.

A path may no longer exist. None means that anything in the folder may have changed. If events were
lost, the function is called with None, and then with the paths that are known."""

log = structlog.get_logger(__name__)

DEBOUNCE_S = 0.3
_SETTLE_S = 0.02  # One save of a file causes several events. This time covers all of them.
_FEW_PATHS = 32  # With more paths within `debounce_s`, events are collected.
MAX_PATHS = 20_000
CHECK_EVERY_S = 2.0
RETRY_AFTER_LIMIT_S = 60.0
STOP_TIMEOUT_S = 5.0

# Events of opening and reading are left out, so that our own reads cause no change event.
_EVENTS: list[type[events.FileSystemEvent]] = [
    events.FileCreatedEvent,
    events.FileModifiedEvent,
    events.FileAttribEvent,
    events.FileClosedEvent,
    events.FileMovedEvent,
    events.FileDeletedEvent,
    events.DirCreatedEvent,
    events.DirAttribEvent,
    events.DirMovedEvent,
    events.DirDeletedEvent,
]
_WRITES = (events.FileModifiedEvent, events.FileClosedEvent)


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """Whether a folder is watched. If the folder is not watched, or only in part, `why` says why
    and `hint` says what to do.

    Periodic scans continue in any case.
    """

    watching: bool
    why: str = ""
    hint: str = ""


class FolderWatcher:
    """Watches a folder, with a thread in addition to watchdog's threads.

    A change event is sent immediately if a path had no event in the last `debounce_s` seconds.
    Later events, and events on many paths, are collected for that time. `skip` returns whether to
    ignore a path relative to the folder. A change event contains the newest `max_paths` paths. If
    more paths have changed, an event with None comes first. The watcher checks every
    `check_every_s` seconds whether the watch has failed or a missing folder is back. `observer`
    creates watchdog's observer.
    """

    def __init__(
        self,
        debounce_s: float = DEBOUNCE_S,
        max_paths: int = MAX_PATHS,
        check_every_s: float = CHECK_EVERY_S,
        *,
        skip: Callable[[str], bool] = lambda _: False,
        observer: Callable[[], BaseObserver] = create_observer,
    ) -> None:
        self._debounce_s = debounce_s
        self._check_every_s = check_every_s
        self._skip = skip
        self._new_observer = observer
        self._pending = _Pending(max_paths)
        self._losses = _LossListener(self._pending)
        self._stopping = threading.Event()
        self._status = WatchStatus(False, "the watch was not started", "Call watch().")
        self._wait_s = check_every_s
        # by path: the time (monotonic) of the last event passed on
        self._passed_on_s: dict[str, float] = {}
        self._session: _Session | None = None
        self._thread: threading.Thread | None = None

    def watch(self, root: Path, on_change: OnChange) -> None:
        """Start watching the folder `root`. Only changes after this call cause events, so call this
        method before the first scan.

        If the folder cannot be watched, `status` says so, and the watcher keeps trying. Once the
        watch succeeds, `on_change` is called with None. `on_change` is called on the watcher's
        thread. During a call of `on_change`, changes are collected for the next call.
        """
        if self._thread is not None:
            raise RuntimeError(
                "This watcher already watches a folder. Create a watcher for each folder."
            )
        # A warning of watchdog can contain the whole table of watches, 100 MB of text.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
        logging.getLogger("watchdog").addHandler(self._losses)
        self._begin(root)
        self._thread = threading.Thread(
            target=self._run, args=(root, on_change), name=f"watch {root}", daemon=True
        )
        self._thread.start()

    def describe_status(self) -> WatchStatus:
        """Return the current status. Thread-safe."""
        return self._status

    def stop(self) -> None:
        """Stop watching. After this method returns, no change event is sent, even if a callback
        hangs."""
        self._stopping.set()
        self._pending.mark_incomplete()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)
        logging.getLogger("watchdog").removeHandler(self._losses)
        self._status = WatchStatus(False, "the watch was stopped")

    def _run(self, root: Path, on_change: OnChange) -> None:
        while not self._stopping.is_set():
            try:
                self._turn(root, on_change)
            except Exception:
                log.exception("watch_failed", root=str(root))
                self._stopping.wait(self._check_every_s)
                self._pending.mark_incomplete()
        self._end()

    def _turn(self, root: Path, on_change: OnChange) -> None:
        """Wait for the first file event or the next check, and send change events."""
        if self._pending.wait(self._wait_s):
            self._stopping.wait(min(_SETTLE_S, self._debounce_s))
            if not self._is_quiet():
                self._stopping.wait(self._debounce_s - _SETTLE_S)
        seen = self._pending.take()
        if self._stopping.is_set():
            return
        if self._session is None:
            if self._begin(root):
                on_change(None)
            return
        paths = _make_relative(seen.paths, self._session.real, self._skip)
        holds = self._holds(root, self._session, seen.new_folder)
        if paths is None or seen.lost or not holds:
            on_change(None)
        if paths:
            self._passed_on_s |= dict.fromkeys(seen.paths, time.monotonic())
            on_change(paths)

    def _is_quiet(self) -> bool:
        """Whether fewer than 32 paths were reported in the last `debounce_s` seconds, and none of
        them has had a file event since."""
        since_s = time.monotonic() - self._debounce_s
        self._passed_on_s = {
            path: at_s for path, at_s in self._passed_on_s.items() if at_s > since_s
        }
        return len(self._passed_on_s) < _FEW_PATHS and self._pending.holds_none(self._passed_on_s)

    def _begin(self, root: Path) -> bool:
        """Try to watch the folder, and set the status. Returns whether the folder is watched."""
        try:
            self._session = _Session(root, self._new_observer, self._pending)
        except OSError as error:
            self._give_up(root, error)
            return False
        except Exception:
            # A problem with a folder must never prevent the daemon from starting.
            log.exception("watch_failed", root=str(root))
            self._give_up(root, OSError(errno.EIO, "an unexpected error (see the log)"))
            return False
        self._wait_s = self._check_every_s
        self._set_watching(root, self._session)
        return True

    def _set_watching(self, root: Path, session: "_Session") -> None:
        deep = session.find_too_deep()
        status = _make_partial_status(root, deep) if deep else WatchStatus(True)
        if deep and not self._status.why:
            log.warning("watched_in_part", root=str(root), why=status.why, hint=status.hint)
        self._status = status

    def _holds(self, root: Path, session: "_Session", new_folder: bool) -> bool:
        """Return whether the watch still covers the whole folder. Otherwise, end the watch. A later
        check restarts the watch."""
        try:
            session.check(root, new_folder)
        except OSError as error:
            self._give_up(root, error)
            return False
        if new_folder:
            self._set_watching(root, session)
        return True

    def _give_up(self, root: Path, error: OSError) -> None:
        self._end()
        at_limit = error.errno in _LIMITS
        self._wait_s = RETRY_AFTER_LIMIT_S if at_limit else self._check_every_s
        status = _make_failed_status(root, error)
        if status != self._status:
            log.warning("not_watching", root=str(root), why=status.why, hint=status.hint)
        self._status = status

    def _end(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The paths with file events since the last `take`, newest last. The value of a path says
    whether the file itself was written.

    If `lost` is true, `paths` is incomplete. `new_folder` says whether a folder was created or
    moved.
    """

    paths: Mapping[str, bool]
    lost: bool
    new_folder: bool


class _Pending(events.FileSystemEventHandler):
    """Collects the paths of file events until the next `take`. watchdog's threads call the methods,
    so no method may raise an error."""

    def __init__(self, max_paths: int) -> None:
        self._max_paths = max_paths
        self._lock = threading.Lock()
        self._filled = threading.Event()
        self._paths: dict[str, bool] = {}
        self._lost = False
        self._new_folder = False

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        with self._lock:
            self._new_folder |= isinstance(event, events.DirCreatedEvent | events.DirMovedEvent)
            for path in (event.src_path, event.dest_path):
                if path:
                    name = os.fsdecode(path)
                    was_written = self._paths.pop(name, False)
                    self._paths[name] = was_written or isinstance(event, _WRITES)
            while len(self._paths) > self._max_paths:
                self._lost = True
                del self._paths[next(iter(self._paths))]
            self._filled.set()

    def mark_incomplete(self) -> None:
        """Record that some paths are missing from the next result of `take`."""
        with self._lock:
            self._lost = True
            self._filled.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a file event. Returns False if the timeout passes first."""
        return self._filled.wait(timeout_s)

    def holds_none(self, paths: Collection[str]) -> bool:
        """Whether none of these paths has had a file event since the last `take`."""
        with self._lock:
            return self._paths.keys().isdisjoint(paths)

    def take(self) -> _Seen:
        with self._lock:
            seen = _Seen(self._paths, self._lost, self._new_folder)
            self._paths, self._lost, self._new_folder = {}, False, False
            self._filled.clear()
            return seen


class _LossListener(logging.Handler):
    """Listens to watchdog's log, which is the only sign of a full event queue or a failed watch."""

    def __init__(self, pending: _Pending) -> None:
        super().__init__(logging.WARNING)
        self._pending = pending

    def emit(self, record: logging.LogRecord) -> None:
        self._pending.mark_incomplete()


class _Session:
    """A running observer of a folder. Observation starts with the construction of the object and
    ends with `stop`.

    Raises OSError if the folder cannot be watched, or if the system has no more watches.
    """

    def __init__(
        self, root: Path, new_observer: Callable[[], BaseObserver], handler: _Pending
    ) -> None:
        self.real = os.path.realpath(root)
        self._identity = _read_identity(root)
        self._observer = new_observer()
        try:
            self._observer.schedule(handler, self.real, recursive=True, event_filter=_EVENTS)
            self._observer.start()
            self._check_limit()
        except Exception:
            self.stop()
            raise

    def check(self, root: Path, new_folder: bool) -> None:
        """Raise OSError if the folder is gone or replaced, if a thread of the observer has ended,
        or, with `new_folder`, if the system has no more watches."""
        if _read_identity(root) != self._identity:
            raise OSError(errno.ESTALE, "the folder was replaced by another folder")
        # Only on Linux, a thread besides the emitters reads the kernel's queue of events.
        reader = getattr(self._observer, "_inotify_fd", self._observer)
        threads = [self._observer, reader, *self._observer.emitters]
        if len(threads) < 3 or not all(thread.is_alive() for thread in threads):
            raise OSError(errno.EIO, "a watcher thread died")
        if new_folder:
            self._check_limit()

    def find_too_deep(self) -> str | None:
        """Return the path of a folder that is too deep to be watched, or None if all folders are
        watched."""
        return self._observer.find_too_deep() if isinstance(self._observer, DeepObserver) else None

    def stop(self) -> None:
        self._observer.stop()
        if self._observer.is_alive():
            self._observer.join(STOP_TIMEOUT_S)

    def _check_limit(self) -> None:
        """Raise OSError if the system has no more watches, because watchdog then silently skips
        subfolders.

        To test this, the folder above the watched folder is watched briefly.
        """
        if sys.platform == "linux":
            above = self._observer.schedule(
                events.FileSystemEventHandler(),
                Path(self.real).parent,
                event_filter=[events.DirDeletedEvent],
            )
            self._observer.unschedule(above)


_LIMITS = (errno.ENOSPC, errno.EMFILE)


def _read_identity(root: Path) -> tuple[int, int]:
    """Return the device and inode of the folder `root`. Raises OSError if `root` is not a
    folder."""
    state = root.stat()
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return state.st_dev, state.st_ino


def _make_failed_status(root: Path, error: OSError) -> WatchStatus:
    why = f"{root} is not watched: {(error.strerror or str(error)).lower()}"
    if error.errno == errno.ENOSPC:
        return WatchStatus(
            False, why, "Changes are found at the next scan. Raise the limit: " + _RAISE
        )
    return WatchStatus(False, why, "Changes are found at the next scan. The watch is retried.")


def _make_partial_status(root: Path, deep: str) -> WatchStatus:
    depth = deep.count("/") - os.path.realpath(root).count("/")
    why = f"Some folders in {root} are too deep to be watched (the first is {depth:,} levels down)"
    return WatchStatus(
        True, why, "The next scan finds changes in them. To watch these folders, move them up."
    )


_RAISE = "sysctl fs.inotify.max_user_watches=1048576, or watch a smaller folder."


def _make_relative(
    paths: Mapping[str, bool], root: str, skip: Callable[[str], bool]
) -> list[str] | None:
    """Return the paths relative to `root`, without skipped paths. Returns None if `root` itself is
    among the paths.

    The value of a path says whether its file was written. A path below another path is kept only if
    its file was written. If a folder is moved, each file in the folder has an event, and the
    folder's own event covers these events. But an edited file must not wait for the other files.

    >>> written = {"/r/c.md": True, "/r/a": False, "/r/a/b.md": False, "/r/a/d.md": True}
    >>> _make_relative(written, "/r", lambda _: False)
    ['c.md', 'a', 'a/d.md']
    """
    if root in paths:
        return None
    prefix = root.rstrip("/") + "/"
    ids = {
        path[len(prefix) :]: is_written
        for path, is_written in paths.items()
        if path.startswith(prefix)
    }
    return [
        id_
        for id_, is_written in ids.items()
        if (is_written or ids.keys().isdisjoint(_list_folders_above(id_))) and not skip(id_)
    ]


def _list_folders_above(id_: str) -> list[str]:
    parts = id_.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


class SourceWatchers:
    """Watches all sources that are folders. `on_change` is called with the name of a source and the
    changed paths. None instead of paths means that anything may have changed."""

    def __init__(self, on_change: Callable[[str, Sequence[str] | None], None]) -> None:
        self._on_change = on_change
        self._watchers: dict[str, FolderWatcher] = {}

    @property
    def names(self) -> set[str]:
        return {*self._watchers}

    def describe_status(self, name: str) -> WatchStatus | None:
        """Return the status of a source's watch, or None if the source is not watched."""
        watcher = self._watchers.get(name)
        return watcher.describe_status() if watcher else None

    def watch(self, source: SourceConfig, config: Config) -> None:
        """Watch a source if it is a folder and watching is enabled."""
        if config.watch.enabled and isinstance(source, FolderSource):
            is_noise = create_folder_connector(source, config).is_noise
            watcher = FolderWatcher(config.watch.debounce_ms / 1000, skip=is_noise)
            watcher.watch(source.path, partial(self._pass_on, source.name))
            self._watchers[source.name] = watcher

    def rewatch(self, names: Collection[str], config: Config) -> None:
        """End the watches of the sources with these names. Then watch the sources that are still
        configured."""
        for name in names:
            self.unwatch(name)
        for source in config.sources:
            if source.name in names:
                self.watch(source, config)

    def unwatch(self, name: str) -> None:
        if watcher := self._watchers.pop(name, None):
            watcher.stop()

    def stop(self) -> None:
        for watcher in [*self._watchers.values()]:
            watcher.stop()

    def _pass_on(self, source: str, paths: Sequence[str] | None) -> None:
        wide = None if paths is None else widen_changed_ids(paths)
        self._on_change(source, wide)
        if wide is None and paths:
            self._on_change(source, paths)
