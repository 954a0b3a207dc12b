"""How many requests there were, and how long they took."""

import threading
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Any

import numpy as np

_KEPT = 1000  # times of each endpoint, of which percentiles are told


@dataclass(slots=True)
class Load:
    """What is open and waits now, and how much was refused since the start for want of room."""

    connections: int = 0
    queue: int = 0
    refused: int = 0


class Requests:
    """Counts since the start, by the operation of serve/endpoints.py; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._took_ms: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def note(self, operation: str, status: int, took_ms: float) -> None:
        """Count one; a client that went away is no error."""
        with self._lock:
            self._counts[operation] += 1
            self._errors[operation] += status >= 400 and status != 499
            self._took_ms[operation].append(took_ms)

    def by_operation(self) -> dict[str, Any]:
        """For /v1/stats."""
        with self._lock:
            times = {name: list(took) for name, took in self._took_ms.items()}
            counts, errors = dict(self._counts), dict(self._errors)
        told = {}
        for name in sorted(counts):
            p50_ms, p95_ms = np.percentile(times[name], [50, 95])
            told[name] = {
                "count": counts[name],
                "errors": errors[name],
                "p50_ms": round(float(p50_ms), 3),
                "p95_ms": round(float(p95_ms), 3),
            }
        return told
