"""Checks the backups: their folder, the newest backup, and the last run.

Also reports databases that restores replaced.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hopsyncd.config.configuration import Config
from hopsyncd.config.privacy import describe_other_writers
from hopsyncd.config.schedule import Moment, Run, compute_next_ms
from hopsyncd.display import pluralise
from hopsyncd.doctor import Finding, report_ok
from hopsyncd.ingest.source_scheduler import BACKUP, parse_backup_times
from store.backup_folder import list_backups
from store.exceptions import StoreError
from store.open_database import exists, open_reader
from store.operational import read_jobs
from store.restoring import find_pending_restore, list_replaced

_LATE_MS = 36 * 3_600_000  # a backup is late after this time beyond its schedule
_NAME = "backups"


def check_backups(config: Config) -> Iterator[Finding]:
    """Check that backups are made, that the newest backup is recent, and that the last run
    succeeded."""
    if isinstance(config.database, Path):
        yield from _check_restores(config.database)
    folder = config.backup.dir
    if config.store.url:
        yield report_ok(_NAME, "the database is on a server: use `pg_dump` (docs/operate.md)")
        if folder:
            remedy = "Remove `dir` from [backup], and use `pg_dump`"
            yield Finding(_NAME, "warn", "[backup] cannot copy a database on a server", remedy)
        return
    if folder is None:
        yield report_ok(_NAME, "no backups are scheduled. `dir` in [backup] turns them on")
        return
    yield from _check_folder(folder, config)
    yield from _check_last_run(config)


def _check_restores(database: Path) -> Iterator[Finding]:
    if name := find_pending_restore(database):
        why = f"the restore of {name} is not complete"
        yield Finding(_NAME, "warn", why, "`hopsyncd serve` completes the restore")
    for file in list_replaced(database):
        size = file.stat().st_size / 1e6
        remedy = f"The next backup deletes the replaced database; or delete {file.parent}"
        why = f"a restore has replaced a database of {size:.1f} MB, which still exists"
        yield Finding(_NAME, "warn", why, remedy)


def _check_folder(folder: Path, config: Config) -> Iterator[Finding]:
    if not folder.exists():
        yield Finding(
            _NAME,
            "warn",
            f"{folder} does not exist",
            "Mount its disk, or run `hopsyncd backup now`",
        )
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            _NAME, "fail", f"you may not write to {folder}", "Correct the folder's permissions"
        )
        return
    if writers := describe_other_writers(folder):
        remedy = f"`chmod go-w {folder}`"
        yield Finding(_NAME, "fail", f"{writers} may write to {folder}", remedy)
    backups = list_backups(folder)
    if not backups:
        why = f"there is no backup in {folder}"
        yield Finding(_NAME, "warn", why, "`hopsyncd backup now` makes a backup")
        return
    newest = backups[0]
    if _is_late(newest.manifest.created_ms, config):
        why = f"the newest backup, {newest.name}, is older than the schedule allows"
        yield Finding(_NAME, "warn", why, "Check that the daemon runs; see `hopsyncd schedule`")
    else:
        count = pluralise(len(backups), "backup")
        yield report_ok(_NAME, f"{count} in {folder}, the newest {newest.name}")
    data = config.daemon.data_dir
    if data.exists() and data.stat().st_dev == folder.stat().st_dev:
        yield report_ok(
            _NAME, f"{folder} is on the same disk as the data: if the disk fails, both are lost"
        )


def _is_late(made_ms: int, config: Config) -> bool:
    """Return whether the backup after `made_ms` is more than 36 hours behind the schedule. Returns
    False without a schedule."""
    when = parse_backup_times(config)
    if when is None:
        return False
    now_ms = time.time_ns() // 1_000_000
    run, now = Run(Moment(made_ms, 0.0)), Moment(now_ms, (now_ms - made_ms) / 1000)
    return compute_next_ms(BACKUP, when, run, now) + _LATE_MS < now_ms


def _check_last_run(config: Config) -> Iterator[Finding]:
    if not exists(config.database):
        return
    try:
        with closing(open_reader(config.database)) as connection:
            row = read_jobs(connection).get(BACKUP)
    except StoreError:
        return  # the check of the database reports it
    if row and row.error:
        remedy = "Solve the problem, then run `hopsyncd backup now`; older backups are kept"
        yield Finding(_NAME, "fail", f"the last backup failed: {row.error}", remedy)
