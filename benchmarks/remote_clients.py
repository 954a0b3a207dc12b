"""A hundred clients of twenty users over TLS, compared with a hundred over the local socket.

The requests are the same as in `clients.py`, for five minutes over the socket and for five minutes
over TLS. The phases alternate, so that the noise of the machine affects both. If the daemon asks a
client to retry later (503), the client waits that long. Each kind of failure is printed.

python benchmarks/remote_clients.py
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from clients import AskingClient, Told, figures, run_clients
from common import JSON, arguments, dataset, indexed_daemon, lines, table, write_result

from tests.e2e.daemon import Place
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port

_PROCESSES = 4
_USERS = 20
_ANSWERED, _BUSY = 200, 503


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--clients", {"type": int, "default": 100}),
        ("--passages", {"type": int, "default": 994}),
        ("--rounds", {"type": int, "default": 5, "help": "of a phase over each way"}),
        ("--phase-s", {"type": float, "default": 60.0}),
    )
    folder = dataset(given.data, "hotpotqa")
    questions = [line["question"] for line in lines(folder / "questions.jsonl")]
    told: dict[str, list[Told]] = {"local socket": [], "remote, TLS": []}
    with TemporaryDirectory() as made, ProcessPoolExecutor(_PROCESSES) as processes:
        base = Path(made)
        corpus = base / "corpus.jsonl"
        whole = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        corpus.write_text("".join(whole[: given.passages]), encoding="utf-8")
        authority, port = Authority(base), free_port()
        cert, key = authority.issue()
        access = f'[access]\nlisten = "127.0.0.1:{port}"\ntls_cert = "{cert}"\ntls_key = "{key}"\n'
        with indexed_daemon(corpus, access) as (place, files):
            connects: dict[str, Sequence[Callable[[], AskingClient]]] = {
                "local socket": [partial(AskingClient, place.socket)],
                "remote, TLS": _remote(place, f"https://localhost:{port}", authority.file),
            }
            for _ in range(given.rounds):
                for way, found in told.items():
                    threads = given.clients // _PROCESSES
                    ask = partial(run_clients, connects[way], questions, threads, given.phase_s)
                    asking = [processes.submit(ask, seed) for seed in range(_PROCESSES)]
                    found += [one for process in asking for one in process.result()]
    print(
        f"{len(files)} files, {given.clients} clients of {_USERS} users in {_PROCESSES} processes,"
        f" {given.rounds} phases of {given.phase_s:.0f} s over each way; milliseconds\n"
    )
    seconds = given.rounds * given.phase_s
    columns = ["way", "answers/s", "of the local rate, %", "p50 ms", "p95 ms", "refused (503), %"]
    columns += ["503 with Retry-After, %", "other failures"]
    rows = _rows(told, seconds)
    table(columns, rows)
    failures = Counter(
        (way, one.kind, one.status, one.failure)
        for way, found in told.items()
        for one in found
        if one.status != _ANSWERED
    )
    table(
        ["way", "kind", "status", "failure", "times"],
        [[*failure, times] for failure, times in sorted(failures.items())],
    )
    if given.json:
        write_result("remote-clients", columns, rows)


def _rows(told: Mapping[str, Sequence[Told]], seconds: float) -> list[list[object]]:
    """A row for each way: its figures, and its rate as a share of the rate of the first way."""
    rows, local_per_s = list[list[object]](), 0.0
    for way, found in told.items():
        per_s = sum(one.status == _ANSWERED for one in found) / seconds
        local_per_s = local_per_s or per_s
        rate, p50_ms, p95_ms, refused, others = figures(found, seconds)
        busy = [reply.retry_after for reply in found if reply.status == _BUSY]
        said = 100 * sum(busy) / len(busy) if busy else "none"
        share = 100 * per_s / local_per_s
        rows.append([way, rate, share, p50_ms, p95_ms, refused, said, others])
    return rows


def _remote(place: Place, url: str, ca: Path) -> Sequence[Callable[[], AskingClient]]:
    """The functions that connect each user, each with a token."""
    made = [place.run("token", "create", "--user", f"user{one}") for one in range(_USERS)]
    return [partial(AskingClient, url, one.stdout.strip(), None, ca) for one in made]


if __name__ == "__main__":
    main()
