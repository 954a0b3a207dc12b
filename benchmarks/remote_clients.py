"""A hundred clients of twenty users over TLS, beside as many over the local socket.

The same mixed requests as in `clients.py`, from the same machine. Phases over the socket and over
TLS alternate, so that the noise of the machine falls on both. If the daemon asks a client to retry
later (503), it waits that long.

python benchmarks/remote_clients.py
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from clients import Told, figures, run_clients
from common import JSON, arguments, dataset, indexed_daemon, lines, table, write_result

from hopsyncd.client import Client
from tests.e2e.daemon import Place
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port

_PROCESSES = 4
_USERS = 20


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
            connects: dict[str, Sequence[Callable[[], Client]]] = {
                "local socket": [partial(Client, place.socket)],
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
    columns = ["way", "answers/s", "p50 ms", "p95 ms", "refused (503), %", "other failures"]
    rows = [[way, *figures(found, seconds)] for way, found in told.items()]
    table(columns, rows)
    if given.json:
        write_result("remote-clients", columns, rows)


def _remote(place: Place, url: str, ca: Path) -> Sequence[Callable[[], Client]]:
    """The functions that connect each user, each with a token."""
    made = [place.run("token", "create", "--user", f"user{one}") for one in range(_USERS)]
    return [partial(Client, url, one.stdout.strip(), None, ca) for one in made]


if __name__ == "__main__":
    main()
