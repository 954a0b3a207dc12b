"""Makes, lists and deletes backups in a folder.

Each backup is a folder named after its time in UTC. It contains the database, a copy of the
configuration and a manifest. A new backup is written to a hidden folder. The folder is renamed once
all its files are verified and on disk. The next backup deletes hidden folders left by a crash. A
folder without a valid manifest is never changed.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path
from typing import Any

from store.contract import Connection
from store.exceptions import BackupFailed
from store.files import sync_folder, write_private
from store.open_database import SCHEMA_VERSION, open_reader
from store.space import copy_to_file
from store.versions import read_head

DATABASE, MANIFEST, CONFIG = "hopsyncd.db", "backup.json", "config.toml"
_FORMAT = 1
_PART = ".part"
_REQUESTED = "-requested"  # the end of a requested backup's name, after the time
_LOCK = ".lock"
_SPARE_BYTES = 16 << 20  # free space needed besides the copy: manifest, file system


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a backup. `program` is the version of hopsyncd that made the
    backup.

    `version` is the newest version in the backup, or 0 if it has none. `digest` is the SHA-256 of
    the database.
    """

    created_ms: int
    version: int
    documents: int
    passages: int
    schema: int
    program: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Backup:
    folder: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def database(self) -> Path:
        return self.folder / DATABASE

    @property
    def is_requested(self) -> bool:
        """Whether a user requested the backup. All other backups are scheduled."""
        return _REQUESTED in self.name


def list_backups(folder: Path) -> list[Backup]:
    """Return the finished backups in a folder, newest first. Raises OSError if the folder cannot be
    read."""
    if not folder.exists():
        return []
    backups = [
        Backup(below, manifest)
        for below in folder.iterdir()
        if not below.name.startswith(".") and (manifest := _read_manifest(below))
    ]
    return sorted(
        backups, key=lambda backup: (backup.manifest.created_ms, backup.name), reverse=True
    )


def _read_manifest(folder: Path) -> Manifest | None:
    try:
        fields: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        if fields.pop("format") != _FORMAT or not (folder / DATABASE).is_file():
            return None
        manifest = Manifest(**fields)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    counts = (manifest.created_ms, manifest.version, manifest.documents, manifest.passages)
    if not all(isinstance(count, int) for count in (*counts, manifest.schema, manifest.bytes)):
        return None
    return manifest


def make_backup(
    connection: Connection,
    folder: Path,
    verify: Callable[[Path], None],
    now_ms: int,
    program: str,
    config_file: Path | None = None,
    *,
    is_requested: bool = False,
) -> Backup:
    """Copy the database into the folder, and verify the copy.

    `verify` must raise BackupFailed if it finds an error in the copy; the copy is then deleted.
    Also raises BackupFailed if another process is making a backup in the folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _hold_folder(folder):
            name = _choose_free_name(folder, format_folder_name(now_ms) + _REQUESTED * is_requested)
            return _make(connection, folder, name, verify, now_ms, program, config_file)
    except OSError as error:
        raise _backup_error(folder, (error.strerror or str(error)).lower()) from error


def _make(
    connection: Connection,
    folder: Path,
    name: str,
    verify: Callable[[Path], None],
    now_ms: int,
    program: str,
    config_file: Path | None,
) -> Backup:
    for unfinished in folder.glob(f".*{_PART}"):
        shutil.rmtree(unfinished, ignore_errors=True)
    _require_space(connection, folder)
    part = folder / f".{name}{_PART}"
    part.mkdir(mode=0o700)
    try:
        copy = part / DATABASE
        copy_to_file(connection, copy)
        manifest = _describe(copy, now_ms, program, verify)
        if config_file and config_file.is_file():
            write_private(part / CONFIG, config_file.read_bytes())
        text = json.dumps({"format": _FORMAT, **asdict(manifest)}, indent=2)
        write_private(part / MANIFEST, f"{text}\n".encode())
        sync_folder(part)
        part.rename(folder / name)
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return Backup(folder / name, manifest)


def _describe(copy: Path, now_ms: int, program: str, verify: Callable[[Path], None]) -> Manifest:
    """Verify the copy of a database, and create the backup's manifest. Raises BackupFailed."""
    digest = compute_file_digest(copy)
    verify(copy)
    if compute_file_digest(copy) != digest:
        raise _backup_error(
            copy.parent.parent,
            "the copy changed while it was verified",
            "Check the disk, and that no other program writes to the folder",
        )
    with closing(open_reader(copy)) as connection:
        newest = read_head(connection)
    return Manifest(
        created_ms=now_ms,
        version=newest.id if newest else 0,
        documents=newest.documents if newest else 0,
        passages=newest.passages if newest else 0,
        schema=SCHEMA_VERSION,
        program=program,
        bytes=copy.stat().st_size,
        digest=digest,
    )


def compute_file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def rotate(folder: Path, keep: int) -> list[str]:
    """Delete old backups. Returns their names.

    The newest `keep` (at least one) scheduled backups and the newest `keep` requested backups are
    kept. Call this function only after a successful backup. Raises OSError.
    """
    removed = []
    backups = list_backups(folder)
    kinds = [
        [backup for backup in backups if backup.is_requested == is_requested]
        for is_requested in (False, True)
    ]
    for old in (old for kind in kinds for old in kind[max(keep, 1) :]):
        # a killed process leaves no incomplete backup in the list
        hidden = folder / f".{old.name}{_PART}"
        old.folder.rename(hidden)
        shutil.rmtree(hidden)
        removed.append(old.name)
    return removed


def _require_space(connection: Connection, folder: Path) -> None:
    needed, free = connection.measure_size() + _SPARE_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise _backup_error(
            folder,
            f"the disk is full: {needed / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free",
        )


def _choose_free_name(folder: Path, name: str) -> str:
    number, free = 1, name
    while (folder / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder / _LOCK, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BackupFailed(
            f"Cannot make a backup in {folder}",
            "another process is making a backup in this folder",
            "Wait until that backup is finished",
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


def format_folder_name(now_ms: int) -> str:
    """Format a time as the name of a backup's folder, such as 2026-11-26T03-00-00Z."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


def _backup_error(
    folder: Path,
    why: str,
    hint: str = "Check that the folder exists, that you may write to it, and that its disk has"
    " space",
) -> BackupFailed:
    return BackupFailed(f"Cannot make a backup in {folder}", why, hint)
