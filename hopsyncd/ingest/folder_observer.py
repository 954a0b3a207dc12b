"""Provides an observer for Linux that watches deeper folders than watchdog's own observer.

watchdog lists new folders with `os.walk`, which is recursive in Python 3.11 and fails beyond about
1,000 levels. This observer uses a loop. If a folder is created or moved, watchdog also generates
events for the folder's content. This observer drops these events, because the folder's event covers
its content.
"""

import os
import sys
from collections.abc import Sequence

from watchdog.events import DirCreatedEvent, DirMovedEvent
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter, InotifyObserver, InotifyWatchGroup
from watchdog.observers.inotify_c import InotifyEvent
from watchdog.observers.inotify_move_event_grouper import (
    GroupedInotifyEvent,
    PathedInotifyEvent,
)

MAX_PATH_BYTES = 4095
"""The longest path that Linux takes in a call. A folder with a longer path cannot be watched."""


def create_observer() -> BaseObserver:
    """Create an observer. Raises OSError if the system has no free inotify instances."""
    return DeepObserver() if sys.platform == "linux" else Observer()


class DeepObserver(InotifyObserver):
    """Watches a folder and every folder below it whose path is short enough for the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self._emitter_class = _DeepEmitter

    def find_too_deep(self) -> str | None:
        """Return the path of a folder that is too deep to be watched, or None if all folders are
        watched."""
        groups = (emitter.group for emitter in self.emitters if isinstance(emitter, _DeepEmitter))
        deep_folders = (os.fsdecode(group.too_deep) for group in groups if group and group.too_deep)
        return next(deep_folders, None)


class _DeepGroup(InotifyWatchGroup):
    """The inotify watches of a folder and all folders below it."""

    too_deep: bytes | None = None

    def _add_all_callbacks(self, path: bytes) -> None:
        """Watch the folder at `path` and all folders below it. Each folder is watched before it is
        listed, so that no change is missed."""
        self._add_callback(path)
        stack = [path] if self.is_recursive else []
        while stack:
            for folder in list_folders(stack.pop()):
                if len(folder) > MAX_PATH_BYTES:
                    self.too_deep = folder
                    continue
                self._add_callback(folder)
                stack.append(folder)

    def _recursive_simulate(self, src_path: bytes) -> list[InotifyEvent]:
        return []


class _DeepEmitter(InotifyEmitter):
    """Converts the kernel's events to watchdog's events."""

    @property
    def group(self) -> _DeepGroup | None:
        group = self._inotify
        return group if isinstance(group, _DeepGroup) else None

    def on_thread_start(self) -> None:
        self._inotify = _DeepGroup(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            is_recursive=self.watch.is_recursive,
            event_mask=self.get_event_mask_from_filter(),
            follow_symlink=self.watch.follow_symlink,
        )

    def build_and_queue_event(
        self, event: GroupedInotifyEvent, *, full_events: bool = False
    ) -> None:
        if not isinstance(event, PathedInotifyEvent):
            source, target = event
            if source.ev.is_directory:
                paths = self._decode_path(source.path), self._decode_path(target.path)
                self.queue_event(DirMovedEvent(*paths))
                return
        elif event.ev.is_directory and event.ev.is_moved_to:
            self.queue_event(DirCreatedEvent(self._decode_path(event.path)))
            return
        super().build_and_queue_event(event, full_events=full_events)


def list_folders(folder: bytes) -> Sequence[bytes]:
    """Return the paths of the folders in a folder, without symbolic links. Returns an empty
    sequence if the folder cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
