"""What the machine gives: Python, descriptors, disk, libraries, the clock, watches."""

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hopsyncd.config import Config
from hopsyncd.config_sources import FolderSource
from hopsyncd.doctor.finding import Finding, well
from hopsyncd.errors import ReaderUnavailable
from hopsyncd.extraction.process import WORKER
from hopsyncd.extraction.samples import SAMPLES
from hopsyncd.extraction.trial import try_readers
from store.library import library

_LEAST_PYTHON = (3, 11)
_FEW_DESCRIPTORS, _TOO_FEW_DESCRIPTORS = 512, 128
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 1 << 30, 100 << 20
_LEAST_YEAR = 2026  # of this program: a clock before it was never set
_COUNT_S = 5.0  # for which folders are counted
_INOTIFY = Path("/proc/sys/fs/inotify")


def python() -> Iterator[Finding]:
    found = platform.python_version()
    if sys.version_info < _LEAST_PYTHON:
        yield Finding("python", "fail", f"Python {found}", "Install hopsyncd with 3.11 or newer")
    else:
        yield well("python", f"Python {found} on {platform.system()} {platform.machine()}")


def descriptors() -> Iterator[Finding]:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{limit} descriptors may be open"
    remedy = "Raise it: `ulimit -n 4096`, or LimitNOFILE= in the unit"
    if limit < _TOO_FEW_DESCRIPTORS:
        yield Finding("descriptors", "fail", found, remedy)
    elif limit < _FEW_DESCRIPTORS:
        yield Finding("descriptors", "warn", found, remedy)
    else:
        yield well("descriptors", found)


def clock() -> Iterator[Finding]:
    now = datetime.fromtimestamp(time.time(), UTC)
    found = now.isoformat(timespec="seconds")
    if now.year < _LEAST_YEAR:
        remedy = "Set the clock, best by the network: `timedatectl set-ntp true`"
        yield Finding("clock", "fail", f"it says {found}", remedy)
    else:
        yield well("clock", found)


def libraries() -> Iterator[Finding]:
    used = library()
    found = f"SQLite {used.sqlite} ({used.module}), sqlite-vec {used.vec or 'missing'}"
    if not used.vec or not used.fts5:
        missing = "full-text search" if used.vec else "the vector extension"
        remedy = "Reinstall: `pip install --force-reinstall pysqlite3 sqlite-vec`"
        yield Finding("sqlite", "fail", f"{found}; without {missing}", remedy)
    elif not used.keeps_wal_whole:
        remedy = "Install pysqlite3, which brings a newer one: `pip install pysqlite3`"
        why = "this one can damage a log that two connections write"
        yield Finding("sqlite", "warn", f"{found}: {why}", remedy)
    else:
        yield well("sqlite", f"{found}, with full-text search")


def readers(command: Sequence[str] = WORKER) -> Iterator[Finding]:
    """Whether the sample of each type of document can be read, by a worker as the daemon has it."""
    unavailable: dict[str, ReaderUnavailable] = {}
    try_readers(unavailable, command)
    failed: dict[tuple[str, str], list[str]] = {}
    for kind, error in unavailable.items():
        failed.setdefault((error.why, error.hint), []).append(kind)
    for (why, remedy), kinds in failed.items():
        yield Finding("readers", "fail", f"{', '.join(kinds)} cannot be read: {why}", remedy)
    if not failed:
        yield well("readers", f"samples of {len(SAMPLES)} types are read")


def disk(config: Config) -> Iterator[Finding]:
    """Room where the data is, or will be."""
    place = config.daemon.data_dir
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:.1f} GB free for {config.daemon.data_dir}"
    remedy = "Make room, or set daemon.data_dir to a larger disk"
    if free < _TOO_LITTLE_BYTES:
        yield Finding("disk", "fail", found, remedy)
    elif free < _LITTLE_BYTES:
        yield Finding("disk", "warn", found, remedy)
    else:
        yield well("disk", found)


def watches(config: Config) -> Iterator[Finding]:
    """Whether the kernel allows as many watches as there are folders."""
    roots = [source.path for source in config.sources if isinstance(source, FolderSource)]
    limits = {name: _limit(name) for name in ("max_user_watches", "max_user_instances")}
    if not (config.watch.enabled and roots and None not in limits.values()):
        return
    watched, counted = _folders(roots)
    found = f"{'' if counted else 'over '}{watched} folders, {limits['max_user_watches']} watches"
    remedy = "sysctl fs.inotify.{}={}, kept in /etc/sysctl.d; until then changes wait for scans"
    if watched > (limits["max_user_watches"] or 0):
        told = remedy.format("max_user_watches", max(1 << 20, 2 * watched))
        yield Finding("watches", "fail", f"{found} allowed", told)
    elif len(roots) > (limits["max_user_instances"] or 0):
        why = f"{len(roots)} folders to watch, {limits['max_user_instances']} watchers allowed"
        told = remedy.format("max_user_instances", 2 * len(roots))
        yield Finding("watches", "fail", why, told)
    elif 2 * watched > (limits["max_user_watches"] or 0):
        told = remedy.format("max_user_watches", max(1 << 20, 4 * watched))
        yield Finding("watches", "warn", f"{found} allowed to all programs together", told)
    else:
        yield well("watches", f"{found} allowed")


def _limit(name: str) -> int | None:
    """A limit of inotify; None where the system has none of that kind."""
    try:
        return int((_INOTIFY / name).read_text())
    except (OSError, ValueError):
        return None


def _folders(roots: list[Path]) -> tuple[int, bool]:
    """How many folders there are, and whether there was time to count them all."""
    count, end_s = 0, time.monotonic() + _COUNT_S
    for root in roots:
        for _ in os.walk(root):
            count += 1
            if time.monotonic() > end_s:
                return count, False
    return count, True
