"""Time that passes only when someone waits, and chance that is always the same."""

import threading

from hopsyncd.models.llm.attempts import Timing


class FakeTime:
    """`now` is both clocks; `waited` holds every pause, which takes no time but counts."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        self.waited: list[float] = []
        self.timing = Timing(lambda: self.now, lambda: self.now, lambda: 0.5, self._wait)

    def _wait(self, stop: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        return stop.is_set()
