"""What the configuration says about when jobs run, and how they are told of."""

from collections.abc import Sequence
from typing import Any

from hopsyncd.config import Config
from hopsyncd.config_sources import FolderSource, SourceConfig
from hopsyncd.errors import ConfigError
from hopsyncd.schedule import When, at, every, zone_of
from hopsyncd.serve.status import time_text
from hopsyncd.sync.timetable import Planned
from store.database import Connection
from store.jobs import all_jobs

GC = "gc"


def scan_times(source: SourceConfig, config: Config) -> When:
    """When a source is scanned. Raises ConfigError."""
    if source.scan_at:
        return _at(source.scan_at, config)
    seconds = source.scan_every_s or config.watch.scan_every_s
    return every(seconds, config.schedule.jitter_s)


def full_scan_times(source: SourceConfig, config: Config) -> When | None:
    """When a source is listed whole; None where every scan does that. Raises ConfigError."""
    if isinstance(source, FolderSource) or not config.schedule.full_scan_at:
        return None
    return _at(config.schedule.full_scan_at, config)


def gc_times(config: Config) -> When | None:
    """When gc is done, if it is by itself. Raises ConfigError."""
    return _at(config.schedule.gc_at, config) if config.schedule.gc_at else None


def _at(expression: str, config: Config) -> When:
    zone = config.schedule.time_zone
    try:
        return at(expression, zone_of(zone) if zone else None, config.schedule.jitter_s)
    except ValueError as error:
        raise ConfigError(
            f'Cannot make out the times "{expression}"',
            str(error),
            "Correct them, or write schedule.time_zone",
        ) from error


def schedule_json(connection: Connection, planned: Sequence[Planned]) -> dict[str, Any]:
    """Each job with its times and its last run, the next one first."""
    rows = all_jobs(connection)
    return {
        "jobs": [
            {
                "job": one.job,
                "times": one.times,
                "next": time_text(one.next_ms),
                "last_run": time_text(row.ran_ms) if row else None,
                "last_success": time_text(row.succeeded_ms) if row else None,
                "last_error": row.error if row else None,
            }
            for one in sorted(planned, key=lambda one: one.next_ms)
            for row in (rows.get(one.job),)
        ]
    }
