"""The query path over the socket of a warm daemon, its memory, and its cold start.

The HotpotQA passages as Markdown files and the 100 questions. The embedding alone is measured in
this process with the same model and settings while the daemon is idle.

python benchmarks/latency.py
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from common import arguments, dataset, indexed_daemon, lines, p50, p95, table

from hopsyncd.client import Client
from hopsyncd.config.configuration import Config
from hopsyncd.models.loading import encoder_of

_WARM_UP = 10
_ROUNDS = 3


def main() -> None:
    given = arguments(__doc__ or "")
    folder = dataset(given.data, "hotpotqa")
    questions = [line["question"] for line in lines(folder / "questions.jsonl")]
    with indexed_daemon(folder / "corpus.jsonl") as (place, files):
        assert place.process is not None
        indexed_mb = _resident_mb(place.process.pid)
        place.stop()
        began_s = time.monotonic()
        place.start()
        with Client(place.socket) as client:
            while not client.post("/v1/query", {"question": questions[0]})["passages"]:
                time.sleep(0.02)
            cold_s = time.monotonic() - began_s
            place.sync()
            asked = {
                strategy: _times(questions, partial(_query, client, strategy))
                for strategy in ("hop", "hybrid", "dense", "bm25")
            }
        assert place.process is not None
        idle_mb = _resident_mb(place.process.pid)
        embedding = _times(questions, _embed())
    print(f"{len(files)} passages, {len(questions)} questions {_ROUNDS} times; milliseconds\n")
    rest = [whole - part for whole, part in zip(asked["hop"], embedding, strict=True)]
    rows = [[f"`{name}` over the socket", p50(ms), p95(ms)] for name, ms in asked.items()]
    rows.append(["embedding the question alone", p50(embedding), p95(embedding)])
    rows.append(["`hop` without the embedding", p50(rest), p95(rest)])
    table(["what", "p50", "p95"], rows)
    table(
        ["daemon", "value"],
        [
            ["memory after the first index (RSS)", f"{indexed_mb:.0f} MB"],
            ["memory idle after a restart and the queries (RSS)", f"{idle_mb:.0f} MB"],
            ["start to first answer", f"{cold_s:.1f} s"],
        ],
    )


def _query(client: Client, strategy: str, question: str) -> object:
    return client.post("/v1/query", {"question": question, "strategy": strategy})


def _times(questions: Sequence[str], ask: Callable[[str], object]) -> list[float]:
    """For each question the best of some rounds, in milliseconds."""
    for question in questions[:_WARM_UP]:
        ask(question)
    rounds = [[_ms(ask, question) for question in questions] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _ms(ask: Callable[[str], object], question: str) -> float:
    began_s = time.perf_counter()
    ask(question)
    return (time.perf_counter() - began_s) * 1000


def _embed() -> Callable[[str], object]:
    encoder = encoder_of(Config())
    return lambda question: encoder.encode([question])


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes) / 1024


if __name__ == "__main__":
    main()
