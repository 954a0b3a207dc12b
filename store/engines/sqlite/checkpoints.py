"""Copies the log (-wal) into the database file in the background.

By default, SQLite would do a checkpoint at the end of the commit that fills the log, and the user's
edit would have to wait. A thread does the checkpoint before the log is full. The thread holds no
lock that the writer or a reader needs. At the first write after a complete checkpoint, SQLite
restarts the log.

A page that changes often, for example in an index of random ids, is copied at each checkpoint. A
large database therefore has a longer log, and fewer checkpoints.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOG_FRAMES = 8192  # new frames, 32 MiB, after which a checkpoint starts
MOST_FRAMES = 4 * LOG_FRAMES  # the same limit for a large database
_PAGES_A_FRAME = 4  # Between these limits: one new frame per this number of database pages.
_HEADER, _FRAME_HEADER = 32, 24
_SALT = slice(16, 24)  # where the log's header has the salt; in a frame's header it is at offset 8


class Checkpointer:
    """Runs `checkpoint` on a thread each time the log has grown by one frame for every four pages
    of the database, but at least by LOG_FRAMES and at most by MOST_FRAMES.

    Only the writer uses this class.
    """

    def __init__(
        self, database: Path, log: Path, page_bytes: int, checkpoint: Callable[[], None]
    ) -> None:
        self._database = database
        self._log = log
        self._page_bytes = page_bytes
        self._frame_bytes = _FRAME_HEADER + page_bytes
        self._checkpoint = checkpoint
        self._thread: threading.Thread | None = None
        self._moved = 0  # the length of the log at the last checkpoint, in frames
        self._is_paused = False

    def start_if_due(self) -> None:
        """Start a checkpoint if the log is long enough. Does not wait for it."""
        if self._is_paused or (self._thread and self._thread.is_alive()):
            return
        try:
            enough = self._count_enough_frames()
            if self._log.stat().st_size < enough * self._frame_bytes:
                self._moved = 0
                return
            frames = count_frames(self._log, self._frame_bytes)
        except OSError:  # The commit is done. If the disk fails, the next statement reports it.
            return
        if frames < self._moved:  # SQLite has restarted the log.
            self._moved = 0
        if frames - self._moved >= enough:
            self._moved = frames
            self._thread = threading.Thread(target=self._checkpoint, name="checkpoint")
            self._thread.start()

    def _count_enough_frames(self) -> int:
        """Return the number of new frames after which a checkpoint is due."""
        pages = self._database.stat().st_size // self._page_bytes
        return min(max(pages // _PAGES_A_FRAME, LOG_FRAMES), MOST_FRAMES)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Start no checkpoint within the block."""
        self.wait()
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def wait(self) -> None:
        """If a checkpoint is running, wait until it ends."""
        if self._thread:
            self._thread.join()


def count_frames(log: Path, frame_bytes: int) -> int:
    """Count the frames of the current log. Older frames with a different salt may follow and are
    not counted.

    Returns 0 if the log is missing. Raises OSError if the log cannot be read.
    """
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        salt = os.pread(descriptor, _HEADER, 0)[_SALT]
        low, high = 0, max(os.fstat(descriptor).st_size - _HEADER, 0) // frame_bytes
        while low < high:
            middle = (low + high) // 2
            is_new = os.pread(descriptor, 8, _HEADER + middle * frame_bytes + 8) == salt
            low, high = (middle + 1, high) if is_new else (low, middle)
        return low
    finally:
        os.close(descriptor)
