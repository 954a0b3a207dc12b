"""On whose account an LLM is asked for the questions of passages, and for how long."""

from collections.abc import Callable
from dataclasses import dataclass

from hopsyncd.llm.meter import Meter


@dataclass(frozen=True, slots=True)
class Account:
    """`source` names whose passages they are. Once `go_on` says no, nothing more is asked;
    `give_way` is called while replies are awaited."""

    source: str
    meter: Meter
    go_on: Callable[[], bool] = lambda: True
    give_way: Callable[[], None] = lambda: None
