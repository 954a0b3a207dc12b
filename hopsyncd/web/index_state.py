"""Describes the state of the index in a few words, for the header."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hopsyncd.display import pluralise

Kind = Literal["ok", "busy", "warn", "bad"]

_LEAST_S = 2.0  # before that, the time left of an import is unknown


@dataclass(frozen=True, slots=True)
class IndexState:
    """The text for the header.

    count: the number of documents, shown after the text if there is space. share: the finished part
    of an import, from 0 to 1; None if no import is running.
    """

    kind: Kind
    text: str
    detail: str = ""
    count: str = ""
    share: float | None = None


class ImportClock:
    """Estimates the remaining time of an import from its progress since the first call."""

    def __init__(self) -> None:
        self._source = ""
        self._began_s = 0.0
        self._began_share = 0.0

    def estimate_left_s(self, source: str, share: float) -> float | None:
        """Estimate the seconds left, or return None if they are unknown."""
        now_s = time.monotonic()
        if source != self._source or share < self._began_share:
            self._source, self._began_s, self._began_share = source, now_s, share
            return None
        took_s, progress = now_s - self._began_s, share - self._began_share
        if took_s < _LEAST_S or progress <= 0:
            return None
        return took_s * (1 - share) / progress


def describe_state(status: Mapping[str, Any], clock: ImportClock) -> IndexState:
    documents = pluralise(status["documents"], "document")
    if progress := status["progress"]:
        left_s = clock.estimate_left_s(progress["source"], progress["share"])
        work, so_far = "Importing", " so far"
        if progress.get("again"):
            work, so_far = "Reading again", ""
        text = f"{work} {progress['share']:.0%}"
        if left_s is not None:
            text += f", {_format_duration(left_s)} left"
        detail = f"{progress['source']}: {documents}{so_far}"
        return IndexState("busy", text, detail, share=progress["share"])
    paused = [source for source in status["sources"] if source["problem"]]
    if status["error"]:
        return IndexState("bad", "The last sync failed", status["error"])
    if paused:
        names = ", ".join(source["name"] for source in paused)
        is_one = len(paused) == 1
        text = f"{names} is paused" if is_one else f"{len(paused)} sources are paused"
        return IndexState("warn", text, str(paused[0]["problem"]), documents)
    if status["syncing"] or status["pending"]:
        return IndexState("busy", "Updating", count=documents)
    if not status["sources"]:
        return IndexState("warn", "No folder yet")
    return IndexState("ok", "Up to date", count=documents)


def _format_duration(seconds: float) -> str:
    """Format a number of seconds as a rounded duration.

    >>> _format_duration(7), _format_duration(130), _format_duration(8000)
    ('10 s', '2 min', '2 h')
    """
    if seconds < 55:
        return f"{max(round(seconds, -1), 5):.0f} s"
    if seconds < 3300:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / 3600:.0f} h"
