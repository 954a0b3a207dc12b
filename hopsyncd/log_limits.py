"""Limits how often a log message may be repeated, and how large a log file may grow."""

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import structlog

WINDOW_S = 60.0
MAX_WARNINGS = 20  # repetitions of a message per minute, for warnings and for errors
MAX_INFORMATION = 300
MAX_MESSAGES = 100  # different messages per minute; others count as one message
MAX_FILE_BYTES = 10 << 20
KEPT_FILES = 3

_DIGITS = re.compile(r"\d+")
_KEY_CHARACTERS = 80
_OTHERS = "other messages"


@dataclass(slots=True)
class _Message:
    """The counts of one kind of message in the current minute."""

    began_s: float
    count: int = 0
    dropped: int = 0


@dataclass(eq=False, repr=False)
class RepeatLimit:
    """Drops messages that are repeated too often, and reports how many were dropped.

    Messages count as repeated if they differ only in numbers and fields. Debug messages are not
    limited, because a user who sets the level `debug` wants all of them. `tell` is called with the
    level and the summary of dropped messages.
    """

    _tell: Callable[[str, str], None]
    _window_s: float = WINDOW_S
    _clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _messages: dict[tuple[str, str], _Message] = field(default_factory=dict)
    _timer: threading.Timer | None = None

    def admits(self, level: str, message: str) -> bool:
        """Count a message, and return whether to log it."""
        if level == "debug":
            return True
        key = (level, _DIGITS.sub("#", message[:_KEY_CHARACTERS]))
        with self._lock:
            summaries = self._end_windows()
            if key not in self._messages and len(self._messages) >= MAX_MESSAGES:
                key = (level, _OTHERS)
            record = self._messages.setdefault(key, _Message(self._clock()))
            record.count += 1
            is_admitted = record.count <= (MAX_INFORMATION if level == "info" else MAX_WARNINGS)
            if not is_admitted:
                record.dropped += 1
                self._tell_later()
        for summary in summaries:
            self._tell(*summary)
        return is_admitted

    def flush(self) -> None:
        """Log a summary of the messages that were dropped in past minutes."""
        with self._lock:
            self._timer = None
            summaries = self._end_windows()
            if any(message.dropped for message in self._messages.values()):
                self._tell_later()
        for summary in summaries:
            self._tell(*summary)

    def _end_windows(self) -> list[tuple[str, str]]:
        now_s = self._clock()
        over = [
            key
            for key, message in self._messages.items()
            if now_s - message.began_s >= self._window_s
        ]
        ended = [(key, self._messages.pop(key).dropped) for key in over]
        return [
            (level, f"{message}: … and {dropped:,} more like this in the last minute")
            for (level, message), dropped in ended
            if dropped
        ]

    def _tell_later(self) -> None:
        """Schedule `flush`, so that summaries appear even if nothing else is logged."""
        if self._timer is None:
            self._timer = threading.Timer(self._window_s, self.flush)
            self._timer.daemon = True
            self._timer.start()


class LimitedEvents:
    """A structlog processor that drops events that are repeated too often."""

    def __init__(self, limit: RepeatLimit) -> None:
        self._limit = limit

    def __call__(
        self, _: object, method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        level = "error" if method == "exception" else method
        if event.pop(SUMMARY, None) or self._limit.admits(level, str(event.get("event", ""))):
            return event
        raise structlog.DropEvent


class LimitedRecords(logging.Filter):
    """A logging filter for libraries' records that drops records that are repeated too often."""

    def __init__(self, limit: RepeatLimit) -> None:
        super().__init__()
        self._limit = limit

    def filter(self, record: logging.LogRecord) -> bool:
        return self._limit.admits(record.levelname.lower(), f"{record.name}: {record.msg}")


SUMMARY = "is_summary"
"""The field that marks an event as a summary of dropped events. Summaries are never dropped."""


class RotatingFile:
    """A log file that is renamed when it is full. The last `kept` full files remain in the same
    folder.

    Only the file's owner can read it.
    """

    def __init__(
        self, path: Path, max_bytes: int = MAX_FILE_BYTES, kept_files: int = KEPT_FILES
    ) -> None:
        """Open the file for appending, and create it if necessary. Raises OSError."""
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept_files
        self._lock = threading.Lock()
        self._handle = self._open()

    def write(self, text: str) -> None:
        """Append text to the file. Raises OSError, for example if the disk is full."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            os.write(self._handle, data)
            if os.fstat(self._handle).st_size >= self._max_bytes:
                self._rotate()

    def reopen(self) -> None:
        """Reopen the file by its path, which may be a new file. If the file cannot be opened,
        raises OSError, and the old file stays in use."""
        with self._lock:
            fresh = self._open()
            os.close(self._handle)
            self._handle = fresh

    def close(self) -> None:
        os.close(self._handle)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)

    def _rotate(self) -> None:
        names = [
            self._path,
            *(self._make_numbered_path(number) for number in range(1, self._kept + 1)),
        ]
        for newer, older in reversed([*pairwise(names)]):
            with suppress(FileNotFoundError):
                newer.replace(older)
        fresh = self._open()
        os.close(self._handle)
        self._handle = fresh

    def _make_numbered_path(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
