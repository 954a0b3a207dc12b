"""The audit log records who asked for what, when, about which sources, and with which result.

Changes, and refused changes, are always recorded; reads only with `audit.enabled`. Wrong tokens are
in the daemon's log instead. The audit log is a file of JSON lines, `audit.log`. When it is full, or
at the end of a day, it is renamed to `audit.log.TIME`. Renamed files are deleted after
`audit.keep_days` days.

A line is appended with a single write, so a killed process leaves at most one incomplete line,
which readers skip. If a line cannot be written, because the disk is full, the request is still
answered. The daemon logs the failure, the status shows it, and the next line that can be written
says how many lines are missing.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel

from hopsyncd.api.access_rules import Caller
from hopsyncd.config.values import AuditConfig
from hopsyncd.responses.daemon_state import AuditStatus

log = structlog.get_logger(__name__)

AUDIT_NAME = "audit.log"  # the file in the data_dir
GAP = "lines are missing"  # the action of a line that reports lost lines
_MAX_BYTES = 4 << 20  # a file of this size is renamed
_MAX_TOTAL_BYTES = 1 << 30  # if all files exceed this size, the oldest are deleted
_DAY_S = 86_400.0
_LOG_EVERY_S = 60.0  # the interval of log messages about failures

# The recorded fields of a request. Other fields may contain words of a question.
_NAMES = frozenset(
    {"source", "document", "id", "at", "before", "from", "to", "start", "end", "under", "after"}
)
_SETTINGS = frozenset({"strategy", "profile", "method", "k", "limit", "hops", "max_hops"})
_QUESTIONS = frozenset({"question", "filters", "queries"})  # recorded if `audit.questions` is set
# The fields of an answer that list its results. The first field that exists is counted.
_RESULTS = ("answers", "citations", "passages", "documents", "paths", "versions", "changes")


@dataclass(frozen=True, slots=True)
class FoundSummary:
    """The sources in the results of a read request, and the number of results.

    The number is None if the results were not counted.
    """

    sources: tuple[str, ...]
    results: int | None


def summarize_answer(answer: Any) -> FoundSummary:
    """Count the results in the JSON of an answer, and list the sources that it names."""
    sources = {*_find_sources(answer)}
    fields = answer if isinstance(answer, dict) else {}
    lists = (fields[key] for key in _RESULTS if isinstance(fields.get(key), list))
    results = next(lists, None)
    if results is None:
        is_item = "passage" in fields or "text" in fields
        return FoundSummary(tuple(sorted(sources)), 1 if is_item else None)
    count = sum(len(result.get("passages", ())) if "answers" in fields else 1 for result in results)
    return FoundSummary(tuple(sorted(sources)), count)


def _find_sources(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(name := value.get("source"), str):
            yield name
        for below in value.values():
            yield from _find_sources(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _find_sources(below)


def select_recorded(request: BaseModel, questions: bool) -> dict[str, Any]:
    """Select the fields of a read request for the audit log: names and numbers.

    questions: whether to select the fields with the user's questions too.
    """
    fields = request.model_dump(mode="json", exclude_unset=True, by_alias=True)
    names = _NAMES | _SETTINGS | (_QUESTIONS if questions else frozenset())
    return {key: value for key, value in fields.items() if key in names}


@dataclass(eq=False, repr=False)
class AuditLog:
    """The audit log: files that only their owner may read. Any thread may use it."""

    _file: Path
    settings: Callable[[], AuditConfig] = AuditConfig
    _max_bytes: int = _MAX_BYTES
    _max_total_bytes: int = _MAX_TOTAL_BYTES
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lost: int = 0  # lines lost since the last written line
    _problem: str | None = None
    _logged_s: float = -_LOG_EVERY_S
    _may_be_torn: bool = True  # whether the file's last line may be incomplete
    _purged_day: int = -1

    def record(
        self,
        caller: Caller,
        action: str,
        request: dict[str, Any],
        status: int,
        summary: FoundSummary | None = None,
    ) -> None:
        """Record a request and its HTTP status. A failure is logged and does not stop the request.

        `request` has the requested names, paths and versions. It has the question only if
        `audit.questions` is set.
        """
        credentials = caller.credentials
        line = {
            "time": _format_time(time.time()),
            "action": action,
            "asked": request,
            "status": status,
            "sources": list(summary.sources) if summary else [],
            "results": summary.results if summary else None,
            "user": credentials.user,
            "role": caller.role,
            "transport": "tcp" if credentials.uid is None else "socket",
            "uid": credentials.uid,
            "pid": credentials.pid,
            "program": credentials.program,
        }
        if credentials.holder:
            line |= {"token": credentials.token, "address": credentials.address}
        with self._lock:
            try:
                if self._lost:
                    self._append(self._describe_gap())
                    self._lost = 0
                self._append(line)
                self._problem = None
            except OSError as error:
                self._note_failure(error)

    def purge_due(self) -> None:
        """Delete files older than `audit.keep_days`, at most once a day."""
        day = int(time.time() // _DAY_S)
        if day == self._purged_day:
            return
        with self._lock:
            self._purged_day = day
            try:
                self._rotate_old()
                self._purge()
            except OSError as error:
                log.error("cannot delete old files of the audit log", why=error.strerror)

    def describe_status(self) -> AuditStatus:
        """Return the settings of the log, the number of lost lines, and the reason for the loss."""
        settings = self.settings()
        return {
            "enabled": settings.enabled,
            "questions": settings.questions,
            "keep_days": settings.keep_days,
            "lost": self._lost,
            "problem": self._problem,
        }

    def read(
        self, limit: int, since: datetime | None = None, user: str | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """Read the newest lines, newest first. Also returns the number of damaged lines."""
        self.purge_due()
        begin = _format_time(since.timestamp()) if since else ""
        torn = 0

        def select() -> Iterator[dict[str, Any]]:
            nonlocal torn
            for file in [self._file, *reversed(self._list_older_files())]:
                try:
                    text = file.read_bytes()
                except FileNotFoundError:
                    continue
                for raw in reversed(text.splitlines()):
                    line = _parse(raw)
                    if line is None:
                        torn += bool(raw)
                    elif line["time"] < begin:
                        return
                    elif user in (None, line["user"]):
                        yield line

        return [*islice(select(), limit)], torn

    def _append(self, line: dict[str, Any]) -> None:
        """Append a line. Raises OSError if it could not be written completely."""
        self._rotate_old()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self._file, flags, 0o600)
        try:
            data = json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
            size = os.fstat(handle).st_size
            if self._may_be_torn and size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data
            self._may_be_torn = True
            if os.write(handle, data) < len(data):
                raise OSError(None, "only a part of a line was written; the disk may be full")
            self._may_be_torn = False
            full = size + len(data) >= self._max_bytes
        finally:
            os.close(handle)
        if full:
            self._rotate()
            self._purge()

    def _rotate_old(self) -> None:
        """Rename the file if its last line was written on an earlier day."""
        try:
            written_s = self._file.stat().st_mtime
        except FileNotFoundError:
            return
        if int(written_s // _DAY_S) != int(time.time() // _DAY_S):
            self._rotate()

    def _rotate(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        self._file.replace(self._file.with_name(f"{self._file.name}.{stamp}"))

    def _list_older_files(self) -> list[Path]:
        """List the renamed files, oldest first."""
        files = self._file.parent.glob(f"{self._file.name}.*")
        return sorted(files, key=lambda file: (file.stat().st_mtime, file.name))

    def _purge(self) -> None:
        """Delete renamed files older than `audit.keep_days`. If the remaining renamed files exceed
        the limit of 1 GiB in total, delete the oldest of them."""
        oldest_s = time.time() - self.settings().keep_days * _DAY_S
        files = [(file, file.stat()) for file in self._list_older_files()]
        total = sum(state.st_size for _, state in files)
        for file, state in files:
            is_early = state.st_mtime >= oldest_s
            if is_early and total <= self._max_total_bytes:
                return
            file.unlink(missing_ok=True)
            total -= state.st_size
            if is_early:
                log.error(
                    "a part of the audit log was deleted early, because the log is too large",
                    file=file.name,
                )

    def _describe_gap(self) -> dict[str, Any]:
        return {
            "time": _format_time(time.time()),
            "action": GAP,
            "asked": {"lines": self._lost, "why": self._problem},
            "status": 0,
            "sources": [],
            "results": None,
            "user": "hopsyncd",
            "role": "owner",
            "transport": "socket",
        }

    def _note_failure(self, error: OSError) -> None:
        self._lost += 1
        self._problem = error.strerror
        now_s = time.monotonic()
        if now_s >= self._logged_s + _LOG_EVERY_S:
            self._logged_s = now_s
            log.error(
                "the audit log was not written",
                file=str(self._file),
                why=error.strerror,
                lost=self._lost,
            )


class NoAuditLog(AuditLog):
    """An audit log that records nothing, for a server whose requests the daemon records."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull))

    def record(
        self,
        caller: Caller,
        action: str,
        request: dict[str, Any],
        status: int,
        summary: FoundSummary | None = None,
    ) -> None:
        """Do nothing."""

    def purge_due(self) -> None:
        """Do nothing."""


def _parse(raw: bytes) -> dict[str, Any] | None:
    """Parse a line of the log. Returns None if the line is damaged."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    is_whole = isinstance(line, dict) and all(
        isinstance(line.get(key), str) for key in ("time", "action", "user")
    )
    return line if is_whole else None


def _format_time(moment_s: float) -> str:
    """Format a time in UTC, so that strings sort in the order of the times."""
    return datetime.fromtimestamp(moment_s, UTC).isoformat(timespec="milliseconds")
