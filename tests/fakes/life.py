"""A machine whose two clocks are driven by hand, and jobs that run on it when they are due."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from hopsyncd.config.schedule import Moment, Run, When, compute_next_ms

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def unix_ms(text: str) -> int:
    """Of an ISO time; without an offset it is UTC."""
    time = datetime.fromisoformat(text)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True)
class Ran:
    """A run, by true time and by the wall clock."""

    true_ms: int
    wall_ms: int


@dataclass
class Machine:
    """True time goes on; the wall clock may be wrong by `wrong_ms`; asleep, the steady one stands.

    A job is looked at when it said it would be due, and all of them after a sleep or a jump.
    """

    true_ms: int
    jobs: Mapping[str, When]
    takes_ms: int = 0
    wrong_ms: int = 0
    steady_ms: int = 5_000_000
    last: dict[str, Run] = field(default_factory=dict)
    ran: dict[str, list[Ran]] = field(default_factory=dict)
    _due_ms: dict[str, int] = field(default_factory=dict)

    def now(self) -> Moment:
        return Moment(self.true_ms + self.wrong_ms, self.steady_ms / 1000)

    def awake_until(self, true_ms: int) -> None:
        while self.true_ms < true_ms:
            for job in self.jobs:
                self._look(job)
            next_ms = min(self._due_ms.values()) - self.wrong_ms
            self._pass(max(min(next_ms, true_ms) - self.true_ms, 1))

    def asleep_until(self, true_ms: int) -> None:
        self.true_ms = true_ms
        self._due_ms.clear()

    def restarted(self) -> None:
        """The process begins anew: of the last runs only the wall times are known."""
        self.steady_ms = 1000
        now_s = self.now().steady_s
        self.last = {
            job: Run(Moment(run.ended.wall_ms, now_s), run.failed) for job, run in self.last.items()
        }
        self._due_ms.clear()

    def clock_put(self, by_ms: int) -> None:
        self.wrong_ms += by_ms
        self._due_ms.clear()

    def _look(self, job: str) -> None:
        if self._due_ms.get(job, 0) > self.now().wall_ms:
            return
        now = self.now()
        if self._next_ms(job, now) <= now.wall_ms:
            self.ran.setdefault(job, []).append(Ran(self.true_ms, now.wall_ms))
            self._pass(self.takes_ms)
            self.last[job] = Run(self.now())
        self._due_ms[job] = self._next_ms(job, self.now())

    def _next_ms(self, job: str, now: Moment) -> int:
        return compute_next_ms(job, self.jobs[job], self.last.get(job), now)

    def _pass(self, ms: int) -> None:
        self.true_ms += ms
        self.steady_ms += ms


def gaps_ms(ran: Sequence[Ran]) -> list[int]:
    """True time from each run to the next."""
    return [b.true_ms - a.true_ms for a, b in pairwise(ran)]
