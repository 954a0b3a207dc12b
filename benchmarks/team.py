"""Several daemons on one PostgreSQL database: how soon a reader knows, and what readers add.

An invented collection (benchmarks/invented.py) and models that cost nothing, as in
benchmarks/scale.py; the server runs on this machine too, from the programs that the tests use.

python benchmarks/team.py
python benchmarks/team.py --passages 10000 --edits 100 --phase-s 60

edit: from writing one more sentence into a file until a reader answers with it; nobody asks for a
sync. Idle, and while clients ask all daemons without pause. versions behind: of a reader, a tenth
of a second after each of many edits, while clients ask. answers/s: of one, two and three daemons,
among which the clients are divided. What a new reader holds is about what it is sent.
"""

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path

import psycopg
import pytest
from common import answered_s, append, arguments, p50, p95, table
from invented import collection

from hopsyncd.client import Client
from tests.e2e.daemon import ROOT, Place
from tests.e2e.team import Team, new_team
from tests.fakes.postgres import postgres

_DAEMONS = 3
_POLL_S, _LAG_POLL_S = 0.02, 0.1
_NUMBERS = count()


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--passages", {"type": int, "default": 1000}),
        ("--edits", {"type": int, "default": 30}),
        ("--clients", {"type": int, "default": 6}),
        ("--phase-s", {"type": float, "default": 10.0}),
    )
    program = ("benchmarks.fast_daemon", str(ROOT))
    try:
        with postgres() as server, new_team(server, _DAEMONS, program) as team:
            files, questions = _written(team, given.passages)
            team.places[0].post("/v1/sync", {})
            _measure(team, files, questions, given.edits, given.clients, given.phase_s)
    except pytest.skip.Exception as missing:
        print(f"skipped: {missing}")


def _written(team: Team, passages: int) -> tuple[list[Path], list[str]]:
    files, questions = [], []
    for document in collection(passages):
        file = team.notes / document.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document.text, encoding="utf-8")
        files.append(file)
        questions.append(document.question)
    return files, questions


def _measure(
    team: Team,
    files: Sequence[Path],
    questions: Sequence[str],
    edits: int,
    clients: int,
    seconds: float,
) -> None:
    edit = partial(_edit, files, team.reader())
    idle_s, busy_s, behind = [edit() for _ in range(edits)], list[float](), list[int]()
    with ProcessPoolExecutor(clients) as processes:

        def asked(places: Sequence[Place]) -> list[Future[int]]:
            sockets = islice(cycle(one.socket for one in places), clients)
            return [processes.submit(_answered, one, questions, seconds) for one in sockets]

        asking = asked(team.places)
        while not all(one.done() for one in asking):
            busy_s.append(edit())
        asking = asked(team.places)
        while not all(one.done() for one in asking):
            behind.append(_behind(team.reader(), files))
        per_s = [
            sum(one.result() for one in asked(team.places[:daemons])) / seconds
            for daemons in range(1, _DAEMONS + 1)
        ]
    print(f"{len(files)} files, {clients} clients, phases of {seconds:.0f} s\n")
    rows = [("idle", idle_s), ("while clients ask", busy_s)]
    table(
        ["edits", "number", "p50 ms", "p95 ms", "worst ms"],
        [[name, len(took), *_ms((p50(took), p95(took), max(took)))] for name, took in rows],
    )
    shown = [f"{one:.0f}" for one in (p50(behind), p95(behind), max(behind))]
    table(["versions behind", "p50", "p95", "worst"], [["10 edits/s, clients ask", *shown]])
    table(
        ["daemons", "answers/s", "of one"],
        [[n, each, f"{each / per_s[0]:.2f}"] for n, each in enumerate(per_s, 1)],
    )
    table(["what a passage takes", "KB", "ms"], _sizes(team))


def _answered(socket: Path, questions: Sequence[str], seconds: float) -> int:
    """How many questions one client had answered in so many seconds."""
    end_s, answered = time.monotonic() + seconds, 0
    with Client(socket) as client:
        while time.monotonic() < end_s:
            client.post("/v1/query", {"question": questions[answered % len(questions)]})
            answered += 1
    return answered


def _ms(seconds: Sequence[float]) -> list[str]:
    return [f"{1000 * one:,.0f}" for one in seconds]


def _edit(files: Sequence[Path], reader: Place) -> float:
    """Seconds until the reader answers with what was written."""
    number = next(_NUMBERS)
    return answered_s(reader, files[7 * number % len(files)], number, _POLL_S)


def _sizes(team: Team) -> list[list[object]]:
    """On the server, and of a reader that begins with nothing of its own."""
    reader = team.reader()
    passages = reader.status()["passages"]
    with psycopg.connect(team.url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    reader.stop()
    shutil.rmtree(reader.home / "data")
    began_s = time.monotonic()
    reader.start()
    reader.until(lambda: reader.status()["passages"] == passages)
    notified_ms = (time.monotonic() - began_s) * 1000
    reader.stop()
    held = sum(file.stat().st_size for file in (reader.home / "data").rglob("*") if file.is_file())
    return [
        ["on the server", row[0] / passages / 1000, "-"],
        ["of a new reader, its start included", held / passages / 1000, notified_ms / passages],
    ]


def _behind(reader: Place, files: Sequence[Path]) -> int:
    """By how many versions, a moment after one more edit."""
    number = next(_NUMBERS)
    append(files[7 * number % len(files)], f"Number {number} was seen by Ottoline{number}.")
    time.sleep(_LAG_POLL_S)
    return int(reader.status()["store"]["behind"])


if __name__ == "__main__":
    main()
