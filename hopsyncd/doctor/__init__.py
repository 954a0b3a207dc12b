"""Whether hopsyncd can work on this machine: one check after another, each with its remedy."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a check found; `remedy` is empty if all is well.

    A `fail` keeps the daemon or a part of it from working; a `warn` does not, or not yet.
    """

    check: str
    level: Level
    detail: str
    remedy: str = ""


def well(check: str, detail: str) -> Diagnosis:
    return Diagnosis(check, "ok", detail)
