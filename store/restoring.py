"""Replaces the database with a backup, and reports beforehand what would be lost.

A restore has two steps. `stage` copies the backup into the folder `restore` next to the database,
and then writes the order file. A daemon may serve from the database meanwhile. `finish_restore`,
which a daemon calls when it starts, moves the database to a folder below `replaced`, and renames
the copy to the database's name. Then `finish_restore` prepares the copy: it reserves the
acknowledged version numbers, repeats purges, and applies the access rules of the replaced database.
All these actions can be repeated. So after a crash, the next call of `finish_restore` completes the
restore.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from store.access_rules import AccessRule, mark_restored, narrow
from store.backup_folder import (
    DATABASE,
    Backup,
    compute_file_digest,
    format_folder_name,
)
from store.check import check
from store.contract import Connection
from store.engines.sqlite.acknowledged import note_path, read_acknowledged
from store.engines.sqlite.database import open_file
from store.exceptions import BackupFailed, OlderSchema, StoreError
from store.files import sync_folder, sync_to_disk, write_private
from store.open_database import SCHEMA_VERSION, open_reader, open_writer
from store.operational import list_watches, note_run
from store.purge import request_purge
from store.sources import (
    exclude,
    knows_item,
    list_sources,
    put_access_rules,
    read_access_rules,
    read_excluded_items,
    read_source_names,
    register_source,
)
from store.transactions import compute_version_digest, reserve_lost, transaction
from store.versions import read_head

BACKUP_JOB = "backup"  # the name of the job that makes scheduled backups
_STAGE, _REPLACED, _ORDER = "restore", "replaced", "restore.json"


@dataclass(frozen=True, slots=True)
class Loss:
    """The versions, tags and watches that a restore would lose.

    `version` is the newest version of the database, or 0 if the database has no version. The backup
    lacks `versions` versions, and the tags and watched questions in `tags` and `watches`. If
    `is_other` is true, the backup is not an earlier state of this database, so everything is lost.
    `unreadable` says why the database or the backup cannot be read; the other fields are then
    empty.
    """

    version: int = 0
    created_ms: int = 0
    versions: int = 0
    tags: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    is_other: bool = False
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """A finished restore.

    `version` is the newest version after the restore. `replaced` is the folder with the former
    database, or None if there was no database. `purged` is the number of purges that were repeated.
    If the former database could not be read, `unread` says why.
    """

    version: int
    replaced: Path | None
    purged: int
    unread: str | None


@dataclass(frozen=True, slots=True)
class _Order:
    """A prepared restore: the name of the backup, and the name of a folder below `replaced` for the
    present database."""

    name: str
    aside: str


def describe_loss(database: Path, copy: Path) -> Loss:
    """Compare the database with the copy of a backup that would replace it, and return what would
    be lost."""
    if not database.exists():
        return Loss()
    try:
        with closing(open_reader(database)) as current, closing(open_reader(copy)) as backup:
            return _compare(current, backup)
    except OlderSchema:
        return Loss(unreadable="an older hopsyncd made the backup or the database")
    except StoreError as error:
        return Loss(unreadable=error.why)


def _compare(current: Connection, backup: Connection) -> Loss:
    newest, old = read_head(current), read_head(backup)
    if newest is None:
        return Loss()
    number = old.id if old else 0
    is_other = compute_version_digest(current, number) != compute_version_digest(backup, number)
    watched = {(watch.id, watch.question) for watch in list_watches(backup)}
    tags = _read_tags(backup)
    later = current.execute(
        "SELECT count(*) FROM version WHERE id > ?", [0 if is_other else number]
    )
    return Loss(
        version=newest.id,
        created_ms=newest.created_ms,
        versions=int(later.fetchone()[0]),
        tags=tuple(sorted(_read_tags(current) - tags)),
        watches=tuple(
            watch.question
            for watch in list_watches(current)
            if (watch.id, watch.question) not in watched
        ),
        is_other=is_other,
    )


def _read_tags(connection: Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM tag")}


def stage_restore(
    database: Path, name: str, chosen: Backup | Path, verify: Callable[[Path], None], now_ms: int
) -> None:
    """Prepare a restore: copy a backup or a database file to the folder where `finish_restore`
    expects it.

    A backup was verified when it was made, so only its digest is compared. Any other file is
    checked with `verify`, which must raise BackupFailed if it finds an error. Raises StoreError.
    The database in use is not changed.
    """
    if isinstance(chosen, Backup) and chosen.manifest.schema > SCHEMA_VERSION:
        raise _restore_error(
            name,
            f"the backup has schema {chosen.manifest.schema}, and this hopsyncd supports schemas up"
            f" to {SCHEMA_VERSION}",
            f"Install hopsyncd {chosen.manifest.program}, which made the backup, or a later one",
        )
    folder = database.parent / _STAGE
    (folder / _ORDER).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / DATABASE
    try:
        # Only the owner may enter either folder. mkdir sets the mode only of a path's last folder.
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        if isinstance(chosen, Backup):
            _copy_verified(name, chosen, copy)
        else:
            _copy_file(name, chosen, copy, verify)
        order = _Order(name, format_folder_name(now_ms))
        part = folder / f".{_ORDER}.part"
        write_private(part, json.dumps(asdict(order)).encode())
        part.rename(folder / _ORDER)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        why = f"{error.filename or folder}: {(error.strerror or str(error)).lower()}"
        raise _restore_error(
            name, why, "Check the permissions and the disk. The current database is unchanged"
        ) from error
    except StoreError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_file(name: str, chosen: Path, copy: Path, verify: Callable[[Path], None]) -> None:
    """Copy a database with its log, then migrate and check the copy. No process may write to the
    database meanwhile.

    Matches written by an older program are not checked, because the next start recomputes them.
    """
    for ending in ("", "-wal"):
        file = chosen.with_name(chosen.name + ending)
        if file.exists():
            copied = copy.with_name(copy.name + ending)
            shutil.copyfile(file, copied)
            copied.chmod(0o600)
    with closing(open_file(copy)) as connection:
        schema = connection.execute("PRAGMA user_version").fetchone()[0]
    with closing(open_writer(copy)) as connection:
        findings = check(connection, deep=True) if schema < SCHEMA_VERSION else []
        connection.execute("PRAGMA journal_mode = DELETE")
    note_path(copy).unlink(missing_ok=True)
    if findings:
        why = f"{findings[0].invariant}: {findings[0].where}: {findings[0].detail}"
        raise _restore_error(name, why, _CHOOSE_ANOTHER)
    if schema == SCHEMA_VERSION:
        try:
            verify(copy)
        except BackupFailed as error:
            raise _restore_error(name, error.why, _CHOOSE_ANOTHER) from error
    sync_to_disk(copy)


def _copy_verified(name: str, chosen: Backup, copy: Path) -> None:
    shutil.copyfile(chosen.database, copy)
    copy.chmod(0o600)
    sync_to_disk(copy)
    if compute_file_digest(copy) != chosen.manifest.digest:
        raise _restore_error(
            name,
            f"{chosen.database} has changed since it was verified",
            "Check the disk, and choose another backup. The current database is unchanged",
        )


_CHOOSE_ANOTHER = "Choose another backup. The current database is unchanged"


def _restore_error(name: str, why: str, hint: str) -> BackupFailed:
    return BackupFailed(f"Cannot restore {name}", why, hint)


def find_pending_restore(database: Path) -> str | None:
    """Return the name of the backup whose restore was prepared or interrupted, or None if no
    restore is pending."""
    order = _read_order(database.parent / _STAGE)
    return order.name if order else None


def get_order_path(database: Path) -> Path:
    """Return the path of the file that describes the prepared restore. If this file is deleted, the
    restore is cancelled."""
    return database.parent / _STAGE / _ORDER


def _read_order(folder: Path) -> _Order | None:
    try:
        return _Order(**json.loads((folder / _ORDER).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def finish_restore(
    database: Path, now_ms: int, step: Callable[[str], None] = lambda _: None
) -> Restored | None:
    """Complete the prepared restore. Returns None if no restore was prepared. The caller must hold
    the writer lock.

    `step` is called before each change of the files, for tests. Raises StoreError.
    """
    folder = database.parent / _STAGE
    order = _read_order(folder)
    if order is None:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    aside = database.parent / _REPLACED / order.aside
    if (folder / DATABASE).exists():
        _move_aside(database, aside, step)
        step("rename")
        (folder / DATABASE).rename(database)
        sync_folder(database.parent)
    step("continue")
    restored = _prepare_copy(database, aside / DATABASE, now_ms)
    step("forget")
    (folder / _ORDER).unlink()
    shutil.rmtree(folder, ignore_errors=True)
    return restored


def _move_aside(database: Path, aside: Path, step: Callable[[str], None]) -> None:
    """Move the database, its WAL and its `.head` file to the folder `aside`. The moved database can
    still be opened."""
    note = note_path(database)
    files = [database.with_name(database.name + ending) for ending in ("-shm", "-wal", "")]
    for file in (*files, note):
        if file.exists():
            step(f"move {file.name}")
            aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = DATABASE + file.name.removeprefix(database.name)
            file.rename(note_path(aside / DATABASE) if file == note else aside / name)
    if aside.exists():
        sync_folder(aside)
        sync_folder(aside.parent)


def _prepare_copy(database: Path, former: Path, now_ms: int) -> Restored:
    acknowledged = read_acknowledged(former)
    purged, unread = 0, None
    with closing(open_writer(database)) as connection:
        if acknowledged:
            with transaction(connection):
                reserve_lost(connection, acknowledged.version)
        if former.exists():
            try:
                with closing(open_reader(former)) as replaced:
                    purged = _carry_over(replaced, connection, now_ms)
            except StoreError as error:
                unread = error.why
        rules = read_access_rules(connection)
        put_access_rules(
            connection, {name: mark_restored(rule) for name, rule in rules.items() if rule}
        )
        # Note a run now. Otherwise a backup would be due at once, before the first scan.
        note_run(connection, BACKUP_JOB, now_ms, None)
        newest = read_head(connection)
    replaced_in = former.parent if former.exists() else None
    return Restored(newest.id if newest else 0, replaced_in, purged, unread)


def _carry_over(former: Connection, restored: Connection, now_ms: int) -> int:
    """Repeat the purges of the former database, and apply its access rules. Returns the number of
    purges.

    If the backup is of another database, the rules of both stay in force. Sources that the backup
    lacks are registered if they are closed or have purged documents.
    """
    purged_items = read_excluded_items(former)
    rules = read_access_rules(former)
    kept_names = {name for name, _ in purged_items} | {name for name, rule in rules.items() if rule}
    for source in list_sources(former):
        if source.name in kept_names.difference(read_source_names(restored).values()):
            register_source(restored, source.name, source.kind, source.location)
    rows = {name: row for row, name in read_source_names(restored).items()}
    put_access_rules(restored, _combine_rules(former, restored))
    purged = 0
    for name, path in purged_items - read_excluded_items(restored):
        if knows_item(restored, rows[name], path):
            request_purge(restored, rows[name], path, now_ms)
            purged += 1
        else:
            exclude(restored, rows[name], path, now_ms)
    return purged


def _combine_rules(former: Connection, restored: Connection) -> dict[str, AccessRule]:
    """Return the access rules to record for the sources that are in both the former and the
    restored database."""
    rules, backed_up = read_access_rules(former), read_access_rules(restored)
    loss = _compare(former, restored)
    is_other = loss.is_other or not loss.version
    return {
        name: narrow(backed_up_rule, rule)
        if is_other and (backed_up_rule := backed_up[name])
        else rule
        for name, rule in rules.items()
        if rule is not None and name in backed_up
    }


def list_replaced(database: Path) -> list[Path]:
    """Return the databases that restores have replaced, newest first."""
    databases = (database.parent / _REPLACED).glob(f"*/{DATABASE}")
    return sorted(databases, reverse=True)


def drop_replaced(folder: Path) -> None:
    """Delete the databases that restores have replaced, in the data folder `folder`."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / _REPLACED)
