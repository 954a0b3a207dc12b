"""Makes a backup in a separate process: `python -m hopsyncd.ingest.backup_process`.

The process copies the database and runs all checks on the copy. It has the lowest priority, so that
queries and edits do not wait for the backup. From standard input, it reads a `BackupOrder` as a
JSON object. To standard output, it writes the finished backup or an error as a JSON object.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hopsyncd import __version__
from hopsyncd.ingest.upkeep import check_database
from store.backup_folder import list_backups, make_backup, rotate
from store.exceptions import BackupFailed, StoreError
from store.open_database import open_reader

_LOWEST_PRIORITY = 19


@dataclass(frozen=True, slots=True)
class BackupOrder:
    """The database to back up, and the folder for backups. `keep` is the number of scheduled
    backups, and of requested backups, to keep."""

    database: str
    folder: str
    keep: int
    config_file: str
    is_requested: bool = False


def verify_copy(copy: Path) -> None:
    """Run all checks on a copy of a database. Raises BackupFailed if a check fails."""
    with closing(open_reader(copy)) as connection:
        findings = check_database(connection, True, lambda *_: None)["findings"]
    if findings:
        first = findings[0]
        raise BackupFailed(
            "The copy has errors, so no backup was made; older backups are kept",
            f"{first['invariant']}: {first['where']}: {first['detail']}",
            "Run `hopsyncd check --deep` to list all errors",
        )


def make(order: BackupOrder) -> dict[str, Any]:
    """Make the backup, then delete old backups. Returns the finished backup. Raises StoreError."""
    folder, file = Path(order.folder), Path(order.config_file)
    with closing(open_reader(Path(order.database))) as connection:
        now_ms = time.time_ns() // 1_000_000
        backup = make_backup(
            connection,
            folder,
            verify_copy,
            now_ms,
            __version__,
            file,
            is_requested=order.is_requested,
        )
    try:
        removed = rotate(folder, order.keep)
    except OSError as error:
        raise BackupFailed(
            f"The backup {backup.name} was made, but an old backup cannot be deleted",
            f"{error.filename}: {(error.strerror or str(error)).lower()}",
            f"Check the permissions of {folder}",
        ) from error
    return {
        "name": backup.name,
        "file": str(backup.database),
        "removed": removed,
        "kept": len(list_backups(folder)),
        **asdict(backup.manifest),
    }


def run_order(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `make`. If `make` fails, return {"error": [what, why, hint]}, the parts
    of the StoreError."""
    try:
        return make(BackupOrder(**order))
    except StoreError as error:
        return {"error": [error.what, error.why, error.hint]}


def main() -> None:
    os.nice(_LOWEST_PRIORITY)
    json.dump(run_order(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
