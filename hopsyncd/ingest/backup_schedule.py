"""Starts scheduled and requested backups, and keeps track of the newest backup.

A separate process makes the backup (`ingest/backup_process.py`). The writer's thread only starts
this process.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.child_process import Process, start_child
from hopsyncd.config.configuration import Config
from hopsyncd.config.privacy import describe_other_writers
from hopsyncd.errors import BadRequest
from hopsyncd.ingest.backup_process import BackupOrder
from hopsyncd.ingest.source_scheduler import BACKUP, Chore, make_future, parse_backup_times
from hopsyncd.ingest.source_sync import SourceSync
from store.backup_folder import Backup, list_backups
from store.exceptions import BackupFailed
from store.restoring import drop_replaced, finish_restore

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-m", "hopsyncd.ingest.backup_process")
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class MadeBackup:
    """A finished backup: its name, database file, size and version, and the names of the old
    backups that were deleted."""

    name: str
    file: str
    bytes: int
    version: int
    removed: tuple[str, ...]


@dataclass(eq=False, repr=False)
class Backups:
    """Makes backups on schedule and on request, one at a time.

    `newest` is the newest finished backup, or None if there is none. It is updated when the
    configuration is loaded and after each backup.
    """

    _config: Callable[[], Config]
    _config_file: Path
    _command: Sequence[str] = COMMAND
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: Future[MadeBackup] | None = None
    _process: Process | None = None
    _stopped: bool = False
    newest: Backup | None = None
    kept: int = 0

    def list_chores(self, config: Config) -> tuple[Chore, ...]:
        """Return the job that makes scheduled backups, or an empty tuple if the configuration has
        no schedule for backups."""
        self._list_backups(config)
        when = parse_backup_times(config)
        return (Chore(BACKUP, when, self._begin),) if when else ()

    def _begin(self, _: SourceSync) -> "Future[MadeBackup]":
        return self.start()

    def start(self, *, is_requested: bool = False) -> "Future[MadeBackup]":
        """Start a backup, unless a backup is already running. Returns the future of the running
        backup. Raises BadRequest if no backup can be made."""
        config = self._config()
        folder = require_folder(config)
        order = BackupOrder(
            str(config.database),
            str(folder),
            config.backup.keep,
            str(self._config_file),
            is_requested,
        )
        with self._lock:
            if self._running is None:
                self._running = make_future()
                threading.Thread(
                    target=self._run, args=(order, self._running), name="backup", daemon=True
                ).start()
            return self._running

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def stop(self) -> None:
        """Kill the backup process if it is running. The next backup deletes the unfinished
        files."""
        with self._lock:
            self._stopped = True
            if self._process and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _run(self, order: BackupOrder, done: "Future[MadeBackup]") -> None:
        backup: MadeBackup | None = None
        error: Exception | None = None
        try:
            backup = self._make(order)
            # A verified backup also proves that the current database is sound.
            drop_replaced(Path(order.database).parent)
        except Exception as failure:  # noqa: BLE001 - raised where the result is awaited
            error = failure
        self._list_backups(self._config())
        with self._lock:
            self._running = None
        if backup and not error:
            log.info("backup", name=backup.name, version=backup.version, bytes=backup.bytes)
            done.set_result(backup)
        else:
            done.set_exception(error or _ended_error("the backup ended early"))

    def _make(self, order: BackupOrder) -> MadeBackup:
        reply = self._ask(order)
        if parts := reply.get("error"):
            raise BackupFailed(*parts)
        return MadeBackup(
            reply["name"], reply["file"], reply["bytes"], reply["version"], tuple(reply["removed"])
        )

    def _ask(self, order: BackupOrder) -> dict[str, Any]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        with self._lock:
            if self._stopped:
                raise _ended_error("the daemon is stopping")
            self._process = process = start_child(
                self._command, {**environment, "OPENBLAS_NUM_THREADS": "1"}
            )
        try:
            printed, _ = process.communicate(json.dumps(asdict(order)).encode())
            reply: dict[str, Any] = json.loads(printed)
        except (OSError, ValueError) as error:
            why = "the daemon is stopping" if self._stopped else _describe_end(process.wait())
            raise _ended_error(why) from error
        finally:
            with self._lock:
                self._process = None
        return reply

    def _list_backups(self, config: Config) -> None:
        backups: list[Backup] = []
        if config.backup.dir:
            try:
                backups = list_backups(config.backup.dir)
            except OSError as error:
                log.warning("backups cannot be listed", why=str(error))
        self.newest, self.kept = (backups[0] if backups else None), len(backups)


def require_folder(config: Config) -> Path:
    """Return the folder for backups. Raises BadRequest if no folder is configured, if other users
    can write to the folder, or if the database is on a server."""
    if config.store.url:
        raise BadRequest(
            "Cannot make a backup",
            "the database is on a PostgreSQL server",
            "Use `pg_dump`, as docs/operate.md describes",
        )
    if config.backup.dir is None:
        raise BadRequest(
            "Cannot make a backup",
            "no folder for backups is configured",
            "Set `dir` in [backup], or run `hopsyncd backup now --to FILE`",
        )
    folder = config.backup.dir
    if folder.exists() and (writers := describe_other_writers(folder)):
        raise BadRequest(
            f"Cannot make a backup in {folder}",
            f"{writers} can write to the folder and replace a backup",
            f"Run: chmod go-w {folder}",
        )
    return folder


def complete_restore(config: Config) -> None:
    """Complete a restore that was interrupted, or that was prepared while the daemon was stopped.

    The caller must hold the writer lock.
    """
    if not isinstance(config.database, Path):
        return
    done = finish_restore(config.database, time.time_ns() // 1_000_000)
    if done:
        log.info("a backup was restored", version=done.version, replaced=str(done.replaced))


def _ended_error(why: str) -> BackupFailed:
    return BackupFailed(
        "The backup failed; older backups are kept",
        why,
        "To try again, run `hopsyncd backup now` while the daemon is running",
    )


def _describe_end(status: int) -> str:
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return f"the backup process ended with {how}"
