"""Whether hopsyncd can work here: one check after the other, each finding with its remedy."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`check` names what was looked at; `remedy` is empty where all is well.

    A `fail` keeps the daemon, or a part of it, from working; a `warn` does not yet.
    """

    check: str
    level: Level
    detail: str
    remedy: str = ""


def well(check: str, detail: str) -> Diagnosis:
    return Diagnosis(check, "ok", detail)
