"""The endpoint that makes backups.

Admins who are not the owner may write backups only to the folder that the owner has configured,
because the daemon writes with its own user's rights. If an admin could choose the file, such as a
shell's startup file, lines from documents in the backup could run commands as that user.
"""

import os
import stat
from concurrent.futures import Future
from pathlib import Path

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.requests import BackupRequest
from hopsyncd.api.serving import DaemonParts
from hopsyncd.errors import Forbidden
from hopsyncd.ingest.backup_schedule import Backups, MadeBackup
from hopsyncd.ingest.source_scheduler import BACKUP
from hopsyncd.ingest.upkeep import write_backup
from hopsyncd.responses.changes import BackupAnswer


class BackupService:
    """The endpoint of backups; `backups` makes the backups in the configured folder."""

    def __init__(self, parts: DaemonParts, backups: Backups) -> None:
        self._parts = parts
        self._backups = backups

    @endpoint("POST", "/v1/backup", "admin")
    def backup(self, request: BackupRequest, caller: Caller) -> Future[BackupAnswer]:
        """Copy the database to the configured folder, or to a new file at an absolute path."""
        self._parts.freshness.require_database()
        result: Future[BackupAnswer] = Future()
        result.set_running_or_notify_cancel()
        if request.file is None:
            future = self._backups.start(is_requested=True)
            future.add_done_callback(lambda done: self._finish(result, done))
            return result
        file = Path(request.file)
        if not caller.may("owner"):
            file = resolve_backup_path(self._parts.state.config.access.backup_dir, file)
        result.set_result(write_backup(self._parts.reader.get_connection(), file))
        return result

    def _finish(self, result: Future[BackupAnswer], future: Future[MadeBackup]) -> None:
        """Pass the outcome of `future`, which is done, to `result`. If the backup succeeded, first
        record it as a run of the scheduled backup job."""
        if error := future.exception():
            result.set_exception(error)
            return
        backup = future.result()
        noted = self._parts.worker.submit(lambda _: None, BACKUP)
        noted.add_done_callback(lambda _: result.set_result(_make_backup_answer(backup)))


def _make_backup_answer(backup: MadeBackup) -> BackupAnswer:
    return {
        "file": backup.file,
        "bytes": backup.bytes,
        "version": backup.version,
        "name": backup.name,
        "removed": list(backup.removed),
    }


_WHAT = "The backup was refused"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolve_backup_path(folder: Path | None, file: Path) -> Path:
    """Resolve symbolic links in the path of a backup.

    Raises Forbidden unless the path is below the folder. Also raises Forbidden if other users can
    write to a folder on the path or replace `folder`, because they could redirect the backup.
    """
    if folder is None:
        raise Forbidden(
            _WHAT,
            "only the owner of this daemon may choose where backups go",
            "The owner can set access.backup_dir to a folder for backups by admins",
        )
    root, parent = Path(os.path.realpath(folder)), Path(os.path.realpath(file.parent))
    if not parent.is_relative_to(root):
        raise Forbidden(
            _WHAT, f"{file} is not below {folder}", f"Choose a file below {folder} (backup_dir)"
        )
    folder_so_far = Path("/")
    try:
        descriptor = os.open(folder_so_far, _FOLDER)
        try:
            for part in parent.parts[1:]:
                _check_own(descriptor, folder_so_far, is_above=folder_so_far in root.parents)
                folder_so_far /= part
                below = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            _check_own(descriptor, folder_so_far, is_above=False)
        finally:
            os.close(descriptor)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        hint = (
            f"Create {folder_so_far}"
            if isinstance(error, FileNotFoundError)
            else f"Check that {folder_so_far} is a folder that the daemon's user may read"
        )
        raise Forbidden(_WHAT, f"{folder_so_far} cannot be used: {why}", hint) from error
    return folder_so_far / file.name


def _check_own(folder: int, path: Path, *, is_above: bool) -> None:
    """Raise Forbidden if other users may write to this folder.

    Other users may write to a folder above the backup folder (`is_above`) if its sticky bit keeps
    them from replacing files.
    """
    status = os.fstat(folder)
    is_shared = status.st_mode & 0o022 and not (is_above and status.st_mode & stat.S_ISVTX)
    hint = f"Run `chmod go-w {path}`" if is_shared else ""
    if status.st_uid not in (os.geteuid(), 0):
        hint = f"{hint}, and make" if hint else "Make"
        hint += f" the daemon's user the owner of {path}"
    if hint:
        why = f"other users may write to {path}, so they could redirect the backup"
        raise Forbidden(_WHAT, why, hint)
