"""Counts and times requests, for /v1/stats and, in Prometheus's format, for /v1/metrics.

No label contains anything that a user wrote, such as a source name or a question.
"""

import shutil
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hopsyncd.responses.daemon_state import RequestStats
from store.ledger import Spent

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_KEPT_TIMES = 1000  # the newest durations per endpoint, for percentiles
_REQUEST_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SYNC_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200)
_GAUGES = {
    "version": "The version that is served",
    "documents": "Documents in it",
    "passages": "Passages in it",
    "edges": "Edges in it",
    "pending": "1 while changes are being indexed",
    "database_bytes": "The database with its write-ahead log",
}
_COUNTERS = {
    "passages_generated": "Passages with generated questions, since the database was created",
    "texts_embedded": "Embedded texts, since the database was created",
}

Family = GaugeMetricFamily | CounterMetricFamily


@dataclass(slots=True)
class Load:
    """The numbers of open connections, of waiting requests, and of requests refused since the
    start."""

    connections: int = 0
    queue: int = 0
    refused: int = 0


class Requests:
    """Counts requests since the start, by operation of the API. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._took_ms: defaultdict[str, deque[float]] = defaultdict(
            lambda: deque(maxlen=_KEPT_TIMES)
        )

    def note(self, operation: str, status: int, took_ms: float) -> None:
        """Count a request. A client that disconnected does not count as an error."""
        with self._lock:
            self._counts[operation] += 1
            self._errors[operation] += status >= 400 and status != 499
            self._took_ms[operation].append(took_ms)

    def sum_by_operation(self) -> dict[str, RequestStats]:
        with self._lock:
            times = {name: list(took) for name, took in self._took_ms.items()}
            counts, errors = dict(self._counts), dict(self._errors)
        stats: dict[str, RequestStats] = {}
        for name in sorted(counts):
            p50_ms, p95_ms = np.percentile(times[name], [50, 95])
            stats[name] = {
                "count": counts[name],
                "errors": errors[name],
                "p50_ms": round(float(p50_ms), 3),
                "p95_ms": round(float(p95_ms), 3),
            }
        return stats


class Metrics:
    """Collects histograms of durations since the start. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.questions = 0  # the number of answered queries and asks
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
            "Answered queries, by strategy",
            ["strategy"],
            buckets=_REQUEST_BUCKETS_S,
            registry=self._registry,
        )
        self._syncs = Histogram(
            "hopsyncd_sync_seconds",
            "Duration of syncs, each of a whole source or only of its changed part",
            buckets=_SYNC_BUCKETS_S,
            registry=self._registry,
        )
        ProcessCollector(namespace="hopsyncd", registry=self._registry)

    def note_request(self, operation: str, status: int, took_s: float) -> None:
        self._requests.labels(operation, f"{status // 100}xx").observe(took_s)

    def count_question(self) -> None:
        with self._lock:
            self.questions += 1

    def note_query(self, strategy: str, took_s: float) -> None:
        self._queries.labels(strategy).observe(took_s)

    def note_sync(self, took_s: float) -> None:
        self._syncs.observe(took_s)

    def format_text(
        self, status: Mapping[str, Any], load: Load, spent: Iterable[Spent], data_dir: Path
    ) -> str:
        """Format all metrics for Prometheus, with the current values of the status and LLM
        ledger."""
        current = CollectorRegistry()
        current.register(_Current(status, load, spent, data_dir))
        return (generate_latest(self._registry) + generate_latest(current)).decode()


class _Current(Collector):
    """Values that are read when the metrics are requested."""

    def __init__(
        self, status: Mapping[str, Any], load: Load, spent: Iterable[Spent], data_dir: Path
    ) -> None:
        self._status = status
        self._load = load
        self._spent = spent
        self._data_dir = data_dir

    def collect(self) -> Iterator[Metric]:
        status = self._status
        for key, description in _GAUGES.items():
            yield _make_gauge(key, description, float(status[key]))
        wal = Path(status["database"] + "-wal")
        wal_bytes = wal.stat().st_size if wal.exists() else 0
        yield _make_gauge("wal_bytes", "The write-ahead log", wal_bytes)
        yield _add_labels(
            GaugeMetricFamily("hopsyncd_sources", "Sources, by state", labels=["state"]),
            Counter(source["state"] for source in status["sources"]),
        )
        problems = sum(source["problems"] for source in status["sources"])
        yield _make_gauge("problems", "Documents that cannot be read", problems)
        yield _add_labels(
            GaugeMetricFamily(
                "hopsyncd_waiting_passages",
                "Passages that wait for questions from the LLM",
                labels=["why"],
            ),
            status["waiting"],
        )
        yield _make_gauge("failing", "1 if the last sync failed", bool(status["error"]))
        for key, description in _COUNTERS.items():
            value = status["counters"][key]
            yield CounterMetricFamily(f"hopsyncd_{key}", description, value=value)
        yield from self._collect_clients()
        yield from self._collect_llm()
        yield from self._collect_role()
        yield from self._collect_disk()
        yield from self._collect_backups()

    def _collect_role(self) -> Iterator[Metric]:
        store = self._status["store"]
        yield _make_gauge(
            "writer",
            "1 if this daemon writes the database, 0 if it follows another daemon",
            store["role"] == "writer",
        )
        yield _make_gauge(
            "versions_behind", "Versions that a follower does not serve yet", store["behind"]
        )
        yield _make_gauge(
            "server_lost", "1 while the database server cannot be reached", store["lost"]
        )

    def _collect_disk(self) -> Iterator[Metric]:
        usage = shutil.disk_usage(self._data_dir)
        yield _make_gauge("disk_bytes", "The disk of the data folder", usage.total)
        yield _make_gauge(
            "disk_free_bytes", "Free space on the disk of the data folder", usage.free
        )

    def _collect_backups(self) -> Iterator[Metric]:
        """Return the metrics of backups, or none if no backups are scheduled."""
        backup = self._status["backup"]
        if backup is None:
            return
        yield _make_gauge("backup_failing", "1 if the last backup failed", bool(backup["error"]))
        yield _make_gauge("backups", "Backups that are kept", backup["kept"])
        yield _make_gauge(
            "backup_created_seconds",
            "When the newest backup was made, in Unix time; 0 if there is none",
            _to_unix_s(backup["created"]),
        )
        yield _make_gauge("backup_bytes", "The newest backup", backup["bytes"] or 0)

    def _collect_clients(self) -> Iterator[Metric]:
        load = self._load
        yield _make_gauge("connections", "Open connections", load.connections)
        yield _make_gauge("queue", "Requests that wait for a worker", load.queue)
        yield CounterMetricFamily(
            "hopsyncd_refused",
            "Requests and connections that were refused because of a limit",
            value=load.refused,
        )

    def _collect_llm(self) -> Iterator[Metric]:
        calls: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        for row in self._spent:
            calls[row.purpose] += row.calls
            tokens[row.purpose] += row.tokens
        for name, counts in (("calls", calls), ("tokens", tokens)):
            family = CounterMetricFamily(
                f"hopsyncd_llm_{name}", f"{name.capitalize()} of the LLM", labels=["purpose"]
            )
            yield _add_labels(family, counts)


def _make_gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(f"hopsyncd_{name}", description, value=float(value))


def _to_unix_s(moment: str | None) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0


def _add_labels(family: Family, values: Mapping[str, float]) -> Family:
    for label, value in values.items():
        family.add_metric([label], value)
    return family
