"""Several daemons on one PostgreSQL database: how soon a follower serves an edit, and at what cost.

The collection is invented (benchmarks/invented.py) and the models take no time, as in
benchmarks/scale.py. The tests' PostgreSQL server runs on this machine too, without fsync.

python benchmarks/team.py
python benchmarks/team.py --passages 1000 --passages 10000 --passages 100000 --home /var/h

Each phase is printed to standard error when it ends.

With --home, the results of each size are kept in a folder, and measured sizes are not measured
again.

import: until all daemons serve it. edit: from writing one more sentence into a file until a reader
answers with it; nobody asks for a sync. Idle, and while clients ask all daemons without pause.
versions behind: of a reader, a tenth of a second after each of many edits, while clients ask.
failover: the writer is killed while clients ask the other daemons; until another one says that it
writes, and until one answers with an edit of that moment. new reader: from nothing, until it
answers. memory: of a daemon and the processes that answer for it, mapped files apart; highest: at
any moment until then. gc: until a reader that slept through it serves the newest version.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path

import psycopg
import pytest
from common import (
    JSON,
    answered_s,
    append,
    arguments,
    memory_mb,
    most_memory_mb,
    p50,
    p95,
    table,
    write_result,
)
from invented import collection

from hopsyncd.client import Client
from tests.e2e.daemon import ROOT, Place
from tests.e2e.team import Team, new_team
from tests.fakes.postgres import postgres

_SIZES = [1_000]
_POLL_S, _LAG_POLL_S = 0.02, 0.1
_IMPORT_POLL_S = 0.25  # each status reads the list of documents, so polling takes time too
_LONG_S = 7200.0
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Size:
    """The measurements at one size; times in seconds, sizes in KB a passage or MB."""

    passages: int
    import_s: float
    import_followed_s: float
    idle_s: Sequence[float]
    busy_s: Sequence[float]
    behind: Sequence[int]
    answers_per_s: Sequence[float]
    elected_s: Sequence[float]
    failover_s: Sequence[float]
    writer_mb: float
    reader_mb: float
    reader_most_mb: float
    new_reader_s: float
    new_reader_most_mb: float
    restart_s: float
    server_kb: float
    reader_kb: float


_ROWS: dict[str, Callable[[Size], float]] = {
    "import, s": lambda size: size.import_s,
    "import, until all readers serve it, s": lambda size: size.import_followed_s,
    "edit until a reader answers, idle, p50, s": lambda size: p50(size.idle_s),
    "edit until a reader answers, idle, p95, s": lambda size: p95(size.idle_s),
    "edit while six clients ask without pause, p50, s": lambda size: p50(size.busy_s),
    "edit while six clients ask without pause, p95, s": lambda size: p95(size.busy_s),
    "versions behind at 10 edits a second, p95": lambda size: p95(size.behind),
    "answers a second of all daemons / of one": lambda size: (
        size.answers_per_s[-1] / size.answers_per_s[0]
    ),
    "writer killed: until another one writes, worst, s": lambda size: max(size.elected_s),
    "writer killed: until an edit is answered, worst, s": lambda size: max(size.failover_s),
    "memory of a reader, MB": lambda size: size.reader_mb,
    "memory of a reader, highest, MB": lambda size: size.reader_most_mb,
    "memory of the writer, MB": lambda size: size.writer_mb,
    "start of a new reader, s": lambda size: size.new_reader_s,
    "memory of a new reader, highest, MB": lambda size: size.new_reader_most_mb,
    "start of a reader that was stopped, s": lambda size: size.restart_s,
    "on the server, KB a passage": lambda size: size.server_kb,
    "in a reader's data folder, KB a passage": lambda size: size.reader_kb,
}


@dataclass(frozen=True, slots=True)
class Load:
    """The requests to the daemons while something is measured."""

    questions: Sequence[str]
    clients: int
    seconds: float


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--passages", {"type": int, "action": "append", "help": f"Default: {_SIZES}"}),
        ("--edits", {"type": int, "default": 30}),
        ("--clients", {"type": int, "default": 6}),
        ("--phase-s", {"type": float, "default": 10.0}),
        ("--kills", {"type": int, "default": 3}),
        ("--daemons", {"type": int, "default": 3}),
        ("--home", {"type": Path, "help": "Keep what each size gave in a file here"}),
        JSON,
    )
    sizes = []
    try:
        for passages in given.passages or _SIZES:
            kept = given.home / f"{passages}.json" if given.home else None
            if kept and kept.exists():
                sizes.append(Size(**json.loads(kept.read_text(encoding="utf-8"))))
                continue
            load = (given.clients, given.phase_s)
            sizes.append(_size(passages, given.daemons, given.edits, given.kills, *load))
            print(json.dumps(asdict(sizes[-1])), file=sys.stderr, flush=True)
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(asdict(sizes[-1])), encoding="utf-8")
    except pytest.skip.Exception as missing:
        print(f"skipped: {missing}")
        return
    columns = ["what", *(f"{size.passages:,} passages" for size in sizes)]
    rows = [[name, *(_rounded(row(size)) for size in sizes)] for name, row in _ROWS.items()]
    if given.json:
        write_result("team-daemons", columns, rows)
    table(columns, rows)


def _rounded(value: float) -> float:
    """The value with three significant digits."""
    return round(value) if value >= 1000 else float(f"{value:.3g}")


def _size(
    passages: int, daemons: int, edits: int, kills: int, clients: int, phase_s: float
) -> Size:
    program = ("benchmarks.fast_daemon", str(ROOT))
    with postgres() as server, new_team(server, daemons, program) as team:
        files, questions = _write(team, passages)
        return _measure(team, files, Load(questions, clients, phase_s), edits, kills)


def _write(team: Team, passages: int) -> tuple[list[Path], list[str]]:
    files, questions = [], []
    for document in collection(passages):
        file = team.notes / document.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document.text, encoding="utf-8")
        files.append(file)
        questions.append(document.question)
    return files, questions


def _measure(team: Team, files: Sequence[Path], load: Load, edits: int, kills: int) -> Size:
    began_s = time.monotonic()
    writer = team.writer()
    assert writer is not None
    writer.until(partial(_has_scanned, writer), _LONG_S, _IMPORT_POLL_S)
    import_s, passages = time.monotonic() - began_s, writer.status()["passages"]
    for place in team.places:
        place.until(partial(_serves, place, passages), _LONG_S, _IMPORT_POLL_S)
    followed_s = time.monotonic() - began_s
    _report(import_s=import_s, followed_s=followed_s)
    edit = partial(_edit, files, team.reader())
    idle_s, busy_s, behind = [edit() for _ in range(edits)], list[float](), list[int]()
    with ProcessPoolExecutor(load.clients) as processes:
        with _asked(processes, team.places, load) as are_asking:
            while are_asking():
                busy_s.append(edit())
        with _asked(processes, team.places, load) as are_asking:
            while are_asking():
                behind.append(_behind(team.reader(), files))
        passages = writer.status()["passages"]
        memory = memory_mb(writer), memory_mb(team.reader()), most_memory_mb(team.reader())
        per_s = [_answers_per_s(processes, team.places[:n], load) for n in (1, len(team.places))]
        _report(idle_s=idle_s, busy_s=busy_s, writer_mb=memory[0], reader_mb=memory[1:])
        fails = [_fail_over(processes, team, files, load) for _ in range(kills)]
        _report(elected_and_answered_s=fails)
    new_reader_s, new_reader_mb, restart_s, held = _starts(team)
    return Size(
        passages=passages,
        import_s=import_s,
        import_followed_s=followed_s,
        idle_s=idle_s,
        busy_s=busy_s,
        behind=behind,
        answers_per_s=per_s,
        elected_s=[elected_s for elected_s, _ in fails],
        failover_s=[answered_s for _, answered_s in fails],
        writer_mb=memory[0],
        reader_mb=memory[1],
        reader_most_mb=memory[2],
        new_reader_s=new_reader_s,
        new_reader_most_mb=new_reader_mb,
        restart_s=restart_s,
        server_kb=_server_bytes(team) / passages / 1000,
        reader_kb=held / passages / 1000,
    )


def _report(**measured: object) -> None:
    """Print the measurements of a phase, because a later phase of a long run may fail."""
    print(json.dumps(measured), file=sys.stderr, flush=True)


def _has_scanned(place: Place) -> bool:
    now = place.status()
    return all(source["scanned"] for source in now["sources"]) and not now["syncing"]


def _serves(place: Place, passages: int) -> bool:
    return bool(place.status()["passages"] >= passages)


@contextmanager
def _asked(
    processes: ProcessPoolExecutor, places: Sequence[Place], load: Load
) -> Iterator[Callable[[], bool]]:
    """Ask these daemons with clients that are divided among them. Yields a function that returns
    whether the clients still ask."""
    sockets = islice(cycle(place.socket for place in places), load.clients)
    asking = [
        processes.submit(_answered, socket, load.questions, load.seconds) for socket in sockets
    ]
    yield lambda: not all(one.done() for one in asking)
    for one in asking:
        one.result()


def _answers_per_s(processes: ProcessPoolExecutor, places: Sequence[Place], load: Load) -> float:
    sockets = islice(cycle(place.socket for place in places), load.clients)
    asking: list[Future[int]] = [
        processes.submit(_answered, socket, load.questions, load.seconds) for socket in sockets
    ]
    return sum(one.result() for one in asking) / load.seconds


def _answered(socket: Path, questions: Sequence[str], seconds: float) -> int:
    """Return how many questions of one client were answered in `seconds`."""
    end_s, answered = time.monotonic() + seconds, 0
    with Client(socket) as client:
        while time.monotonic() < end_s:
            client.post("/v1/query", {"question": questions[answered % len(questions)]})
            answered += 1
    return answered


def _edit(files: Sequence[Path], reader: Place) -> float:
    """The seconds until the reader answers with the new text."""
    number = next(_NUMBERS)
    return answered_s(reader, files[7 * number % len(files)], number, _POLL_S)


def _behind(reader: Place, files: Sequence[Path]) -> int:
    """The number of versions that the reader is behind, a moment after one more edit."""
    number = next(_NUMBERS)
    append(files[7 * number % len(files)], f"Number {number} was seen by Ottoline{number}.")
    time.sleep(_LAG_POLL_S)
    return int(reader.status()["store"]["behind"])


def _fail_over(
    processes: ProcessPoolExecutor, team: Team, files: Sequence[Path], load: Load
) -> tuple[float, float]:
    """Kill the writer. Returns the seconds until another daemon writes, and until a daemon answers
    with an edit.

    The killed daemon is started again.
    """
    killed = team.writer()
    assert killed is not None
    others = [place for place in team.places if place is not killed]
    with _asked(processes, others, load):
        time.sleep(1.0)
        killed.kill()
        began_s = time.monotonic()
        number = next(_NUMBERS)
        answered = partial(answered_s, others[0], files[7 * number % len(files)], number, _POLL_S)
        with _in_thread(answered) as edited:
            others[0].until(lambda: team.writer() is not None, _LONG_S)
            elected_s = time.monotonic() - began_s
        failover_s = edited.result()
    killed.start()
    newest = others[0].status()["version"]
    killed.until(lambda: killed.status()["version"] >= newest, _LONG_S)
    return elected_s, failover_s


@contextmanager
def _in_thread(compute: Callable[[], float]) -> Iterator["Future[float]"]:
    with ThreadPoolExecutor(1) as threads:
        yield threads.submit(compute)


def _starts(team: Team) -> tuple[float, float, float, int]:
    """Start a reader again, and start a new reader without data.

    Returns the seconds of the new reader's start and its highest memory, the seconds of the other
    start, and the bytes that the new reader stores.
    """
    reader = team.reader()
    passages = reader.status()["passages"]
    reader.stop()
    restart_s = _start(reader, passages)
    reader.stop()
    shutil.rmtree(reader.home / "data")
    new_s = _start(reader, passages)
    most_mb = most_memory_mb(reader)
    reader.stop()
    files = (reader.home / "data").rglob("*")
    return new_s, most_mb, restart_s, sum(file.stat().st_size for file in files if file.is_file())


def _start(reader: Place, passages: int) -> float:
    began_s = time.monotonic()
    reader.start()
    reader.until(partial(_serves, reader, passages), _LONG_S)
    return time.monotonic() - began_s


def _server_bytes(team: Team) -> int:
    with psycopg.connect(team.url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
