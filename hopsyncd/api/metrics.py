"""Request counts and times, and GET /v1/metrics for Prometheus. No label holds a name or a text."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from store.sqlite.ledger import Spent

_KEPT = 1000  # times of each endpoint, of which percentiles are told


@dataclass(slots=True)
class Load:
    """What is open and waits now, and how much was refused since the start for want of room."""

    connections: int = 0
    queue: int = 0
    refused: int = 0


class Requests:
    """Counts since the start, by the operation of api/endpoints.py; from any thread."""

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


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SYNC_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200)


class Metrics:
    """What happened since the start, from any thread, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "hopsyncd_request_seconds",
            "Requests, by the operation of the API and the class of its status",
            ["operation", "status"],
            buckets=_REQUEST_BUCKETS_S,
            registry=self._registry,
        )
        self._queries = Histogram(
            "hopsyncd_query_seconds",
            "Queries that were answered, by strategy",
            ["strategy"],
            buckets=_REQUEST_BUCKETS_S,
            registry=self._registry,
        )
        self._syncs = Histogram(
            "hopsyncd_sync_seconds",
            "Syncs of a source, or of the part of it that changed",
            buckets=_SYNC_BUCKETS_S,
            registry=self._registry,
        )
        ProcessCollector(namespace="hopsyncd", registry=self._registry)

    def note_request(self, operation: str, status: int, took_s: float) -> None:
        self._requests.labels(operation, f"{status // 100}xx").observe(took_s)

    def note_query(self, strategy: str, took_s: float) -> None:
        self._queries.labels(strategy).observe(took_s)

    def note_sync(self, took_s: float) -> None:
        self._syncs.observe(took_s)

    def text(self, status: Mapping[str, Any], load: Load, spent: Iterable[Spent]) -> str:
        """All of it, with what /v1/status and the ledger of the LLM say now."""
        now = CollectorRegistry()
        now.register(_Now(status, load, spent))
        return (generate_latest(self._registry) + generate_latest(now)).decode()


class _Now(Collector):
    """What is read when it is asked for."""

    def __init__(self, status: Mapping[str, Any], load: Load, spent: Iterable[Spent]) -> None:
        self._status = status
        self._load = load
        self._spent = spent

    def collect(self) -> Iterator[Metric]:
        status = self._status
        for key, what in _GAUGES.items():
            yield GaugeMetricFamily(f"hopsyncd_{key}", what, value=float(status[key]))
        wal = Path(status["database"] + "-wal")
        wal_bytes = wal.stat().st_size if wal.exists() else 0
        yield GaugeMetricFamily("hopsyncd_wal_bytes", "The write-ahead log", value=wal_bytes)
        yield _labelled(
            GaugeMetricFamily("hopsyncd_sources", "Sources, by state", labels=["state"]),
            Counter(source["state"] for source in status["sources"]),
        )
        problems = sum(source["problems"] for source in status["sources"])
        yield GaugeMetricFamily(
            "hopsyncd_problems", "Documents that cannot be used", value=problems
        )
        yield _labelled(
            GaugeMetricFamily(
                "hopsyncd_waiting_passages", "Passages that the LLM owes questions", labels=["why"]
            ),
            status["waiting"],
        )
        yield GaugeMetricFamily(
            "hopsyncd_failing", "1 while the last sync failed", value=bool(status["error"])
        )
        for key, what in _COUNTERS.items():
            value = status["counters"][key]
            yield CounterMetricFamily(f"hopsyncd_{key}", what, value=value)
        yield from self._clients()
        yield from self._llm()

    def _clients(self) -> Iterator[Metric]:
        load = self._load
        yield GaugeMetricFamily(
            "hopsyncd_connections", "Connections that are open", value=load.connections
        )
        yield GaugeMetricFamily(
            "hopsyncd_queue", "Requests that wait for their turn", value=load.queue
        )
        yield CounterMetricFamily(
            "hopsyncd_refused", "Requests and connections for which was no room", value=load.refused
        )

    def _llm(self) -> Iterator[Metric]:
        calls: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        for row in self._spent:
            calls[row.purpose] += row.calls
            tokens[row.purpose] += row.tokens
        for name, counts in (("calls", calls), ("tokens", tokens)):
            family = CounterMetricFamily(
                f"hopsyncd_llm_{name}", f"{name.capitalize()} of the LLM", labels=["purpose"]
            )
            yield _labelled(family, counts)


_GAUGES = {
    "version": "The version that is served",
    "documents": "Documents in it",
    "passages": "Passages in it",
    "edges": "Edges in it",
    "pending": "1 while changes are being indexed",
    "database_bytes": "The database with its write-ahead log",
}
_COUNTERS = {
    "passages_generated": "Passages that questions were made for, since the database was made",
    "texts_embedded": "Texts that vectors were made for, since the database was made",
}

Family = GaugeMetricFamily | CounterMetricFamily


def _labelled(family: Family, values: Mapping[str, float]) -> Family:
    for label, value in values.items():
        family.add_metric([label], value)
    return family
