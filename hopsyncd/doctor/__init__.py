"""Checks whether hopsyncd can work on this machine; each problem comes with a remedy."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `remedy` is empty for "ok".

    A `fail` stops the daemon or a part of it from working. A `warn` does not, or not yet.
    """

    check: str
    level: Level
    detail: str
    remedy: str = ""


def report_ok(check: str, detail: str) -> Finding:
    return Finding(check, "ok", detail)
