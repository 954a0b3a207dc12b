"""Measure how a busy writer affects readers: eight clients ask while the writer is idle, and while
files are edited all the time.

The documents are the HotpotQA passages as Markdown files. Idle and busy phases alternate, so that
the noise of the machine affects both. In a busy phase, some files get a new sentence, and as soon
as these files are indexed, other files are edited. At the end, a sample of the 100 questions is
asked again, each at the version of its answer.

python benchmarks/readers.py
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from random import Random
from statistics import quantiles
from threading import Event
from typing import Any

from common import arguments, dataset, indexed_daemon, lines, p50, p95, table

from hopsyncd.client import Client
from tests.e2e.daemon import Place

_FILES = 4  # edited for one sync
_WARM_UP_S = 5.0
_SAMPLE = 100


@dataclass(frozen=True, slots=True)
class Told:
    """An answer: the question, the time that the answer took, and the passages found."""

    question: str
    ms: float
    version: int
    passages: list[dict[str, Any]]


@dataclass(slots=True)
class Phases:
    """The results of all phases of one kind."""

    seconds: float
    told: list[Told]
    syncs: int


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--readers", {"type": int, "default": 8}),
        ("--rounds", {"type": int, "default": 5, "help": "of one idle and one busy phase"}),
        ("--phase-s", {"type": float, "default": 20.0}),
        ("--think-ms", {"type": float, "default": 0.0, "help": "between two questions"}),
    )
    folder = dataset(given.data, "hotpotqa")
    questions = [line["question"] for line in lines(folder / "questions.jsonl")]
    with indexed_daemon(folder / "corpus.jsonl") as (place, files):
        bench = _Bench(place, files, questions, given.readers, given.think_ms / 1000)
        bench.phase(_WARM_UP_S, busy=False)
        idle, busy = (Phases(0.0, [], 0) for _ in range(2))
        before = place.status()
        for _ in range(given.rounds):
            for phases, is_busy in ((idle, False), (busy, True)):
                phase = bench.phase(given.phase_s, busy=is_busy)
                phases.seconds += phase.seconds
                phases.told += phase.told
                phases.syncs += phase.syncs
        after = place.status()
        differing = _differing(place, Random(1).sample(busy.told, min(_SAMPLE, len(busy.told))))
    passages = after["counters"]["passages_generated"] - before["counters"]["passages_generated"]
    print(
        f"{len(files)} files, {given.readers} readers, {given.rounds} idle and {given.rounds} busy"
        f" phases of {given.phase_s:.0f} s, {given.think_ms:.0f} ms between two questions;"
        " milliseconds\n"
    )
    figures = [[len(one.told) / one.seconds, *_times(one.told)] for one in (idle, busy)]
    ratios = [f"{after / before:.2f}" for before, after in zip(*figures, strict=True)]
    table(
        ["writer", "answers/s", "p50", "p95", "p99"],
        [["idle", *figures[0]], ["busy", *figures[1]], ["busy / idle", *ratios]],
    )
    table(
        ["of the busy phases", "value"],
        [
            ["syncs awaited", busy.syncs],
            ["versions", after["version"] - before["version"]],
            ["passages generated a second", passages / busy.seconds],
            ["answers asked again alone", min(_SAMPLE, len(busy.told))],
            ["of them different", differing],
        ],
    )


class _Bench:
    """The readers and the writer over one daemon."""

    def __init__(
        self,
        place: Place,
        files: Sequence[Path],
        questions: Sequence[str],
        readers: int,
        think_s: float,
    ) -> None:
        self._place = place
        self._files = files
        self._questions = questions
        self._readers = readers
        self._think_s = think_s
        self._numbers = count()

    def phase(self, seconds: float, *, busy: bool) -> Phases:
        """Run the readers for `seconds`, and wait until all requests are answered."""
        over = Event()
        with ThreadPoolExecutor(self._readers + 1) as pool:
            began_s = time.monotonic()
            readers = [pool.submit(self._read, n, over) for n in range(self._readers)]
            writer = pool.submit(self._write, over) if busy else None
            time.sleep(seconds)
            over.set()
            told = [one for reader in readers for one in reader.result()]
            return Phases(time.monotonic() - began_s, told, writer.result() if writer else 0)

    def _read(self, number: int, over: Event) -> list[Told]:
        chance = Random(number)
        told = []
        with Client(self._place.socket) as client:
            while not over.is_set():
                question = chance.choice(self._questions)
                began_s = time.perf_counter()
                answer = client.post("/v1/query", {"question": question})
                ms = (time.perf_counter() - began_s) * 1000
                told.append(Told(question, ms, answer["version"], answer["passages"]))
                time.sleep(self._think_s)
        assert all(one.version <= other.version for one, other in pairwise(told))
        return told

    def _write(self, over: Event) -> int:
        syncs = 0
        while not over.is_set():
            for number in (next(self._numbers) for _ in range(_FILES)):
                file = self._files[number % len(self._files)]
                with file.open("a", encoding="utf-8") as note:
                    note.write(
                        f"\nThe custodian of ledger {number} is Ximena Quolbridge{number}.\n"
                    )
            self._place.sync()
            syncs += 1
        return syncs


def _times(told: Sequence[Told]) -> list[float]:
    ms = [one.ms for one in told]
    return [p50(ms), p95(ms), quantiles(ms, n=100, method="inclusive")[-1]]


def _differing(place: Place, told: Sequence[Told]) -> int:
    """Count the answers that differ from the answers of their version."""
    return sum(
        place.query(one.question, at=str(one.version)) != one.passages
        for one in sorted(told, key=lambda one: one.version)
    )


if __name__ == "__main__":
    main()
