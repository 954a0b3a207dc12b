"""A hundred clients at once, with mixed requests, while the daemon is idle and while files change.

The documents are HotpotQA passages as Markdown files. Each client sends one request after the
other: queries of every strategy, batches, `ask`, the status. If the daemon asks a client to retry
later, the client waits that long. Idle and busy phases alternate, so that the noise of the machine
falls on both; in a busy phase some files get a new sentence every second.

python benchmarks/clients.py
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from common import JSON, arguments, dataset, indexed_daemon, lines, p50, p95, table, write_result

from hopsyncd.client import Client, RequestFailed
from hopsyncd.errors import DaemonUnavailable

_PROCESSES = 4
_FILES = 2  # edited a second
_BATCH = 5
_STRATEGIES = ("hop", "hop", "hop", "bm25", "dense", "hybrid", "decompose")
_KINDS = (*["query"] * 7, "queries", "ask", "status")
_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Told:
    """One request: its kind, the status of the answer (0: none), and its duration.

    failure: the code of the error. retry_after: whether the answer said when to ask again.
    """

    kind: str
    status: int
    ms: float
    failure: str = ""
    retry_after: bool = False


class AskingClient(Client):
    """A client that remembers whether the last answer said when to ask again."""

    retry_after = False

    def _read_content(self, response: HTTPResponse) -> bytes:
        self.retry_after = response.headers.get("Retry-After") is not None
        return super()._read_content(response)


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--clients", {"type": int, "default": 100}),
        ("--passages", {"type": int, "default": 994}),
        ("--rounds", {"type": int, "default": 2, "help": "of one idle and one busy phase"}),
        ("--phase-s", {"type": float, "default": 20.0}),
        ("--workers", {"type": int, "help": "limits.workers. Default: as the daemon chooses"}),
    )
    settings = "" if given.workers is None else f"[limits]\nworkers = {given.workers}\n"
    folder = dataset(given.data, "hotpotqa")
    questions = [line["question"] for line in lines(folder / "questions.jsonl")]
    told: dict[str, list[Told]] = {"idle": [], "indexing": []}
    with TemporaryDirectory() as cut, ProcessPoolExecutor(_PROCESSES) as processes:
        corpus = Path(cut) / "corpus.jsonl"
        whole = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        corpus.write_text("".join(whole[: given.passages]), encoding="utf-8")
        with indexed_daemon(corpus, settings) as (place, files):
            numbers = count()
            before = place.status()["version"]
            for _ in range(given.rounds):
                for writer, found in told.items():
                    threads = given.clients // _PROCESSES
                    connects = [partial(AskingClient, place.socket)]
                    ask = partial(run_clients, connects, questions, threads, given.phase_s)
                    asking = [processes.submit(ask, seed) for seed in range(_PROCESSES)]
                    until_s = time.monotonic() + given.phase_s
                    while time.monotonic() < until_s:
                        if writer == "indexing":
                            _edit(files, [next(numbers) for _ in range(_FILES)])
                        time.sleep(1)
                    found += [one for process in asking for one in process.result()]
            place.until(lambda: not place.status()["pending"], 600)
            versions = place.status()["version"] - before
    print(
        f"{len(files)} files, {given.clients} clients in {_PROCESSES} processes, {given.rounds}"
        f" phases of each kind of {given.phase_s:.0f} s, {versions} versions; milliseconds\n"
    )
    seconds = given.rounds * given.phase_s
    columns = ["phase", "answers/s", "p50 ms", "p95 ms", "refused (503), %", "other failures"]
    rows = [[phase, *figures(found, seconds)] for phase, found in told.items()]
    table(columns, rows)
    if given.json:
        write_result("clients", columns, rows)
    table(
        ["phase", "kind", "answered", "p50", "p95"],
        [
            [phase, kind, len(ms), p50(ms), p95(ms)]
            for phase, found in told.items()
            for kind in dict.fromkeys(_KINDS)
            if len(ms := [one.ms for one in found if one.kind == kind and one.status == 200]) > 1
        ],
    )


def run_clients(
    connects: Sequence[Callable[[], AskingClient]],
    questions: Sequence[str],
    threads: int,
    seconds: float,
    seed: int,
) -> list[Told]:
    """Run `threads` clients in one process for `seconds`, and return what each received.

    The clients take turns in how they connect.
    """
    until_s = time.monotonic() + seconds
    seeds = range(seed * threads, (seed + 1) * threads)
    with ThreadPoolExecutor(threads) as pool:
        asking = [
            pool.submit(_client, connects[number % len(connects)], questions, until_s, number)
            for number in seeds
        ]
        return [one for told in asking for one in told.result()]


def _client(
    connect: Callable[[], AskingClient], questions: Sequence[str], until_s: float, seed: int
) -> list[Told]:
    chance, told, client = Random(seed), list[Told](), connect()
    with client:
        while time.monotonic() < until_s:
            kind = chance.choice(_KINDS)
            began_s, status, failure = time.perf_counter(), 200, ""
            try:
                _ask(client, kind, chance, questions)
            except RequestFailed as error:
                status, failure = error.status, error.code
            except DaemonUnavailable as error:
                status, failure = 0, error.why
            ms = (time.perf_counter() - began_s) * 1000
            told.append(Told(kind, status, ms, failure, bool(status) and client.retry_after))
            if status == 503:
                time.sleep(_RETRY_AFTER_S)
    return told


def _ask(client: Client, kind: str, chance: Random, questions: Sequence[str]) -> None:
    if kind == "status":
        client.get("/v1/status")
    elif kind == "ask":
        client.post("/v1/ask", {"question": chance.choice(questions)})
    elif kind == "queries":
        batch = [{"question": chance.choice(questions)} for _ in range(_BATCH)]
        client.post("/v1/queries", {"queries": batch})
    else:
        strategy = chance.choice(_STRATEGIES)
        client.post("/v1/query", {"question": chance.choice(questions), "strategy": strategy})


def _edit(files: Sequence[Path], numbers: Sequence[int]) -> None:
    for number in numbers:
        with files[number % len(files)].open("a", encoding="utf-8") as note:
            note.write(f"\nThe custodian of ledger {number} is Ximena Quolbridge{number}.\n")


def figures(told: Sequence[Told], seconds: float) -> list[object]:
    ms = [one.ms for one in told if one.status == 200]
    statuses = Counter(one.status for one in told)
    failed = len(told) - statuses[200] - statuses[503]
    return [len(ms) / seconds, p50(ms), p95(ms), 100 * statuses[503] / len(told), failed]


if __name__ == "__main__":
    main()
