"""The time from the start of the daemon to its first answer, and the time of each part.

The HotpotQA passages are indexed once as Markdown files. Then the daemon is started many times, and
each time one question is asked as soon as the daemon listens. The parts are timed in a process that
does one part after the other. The daemon does some parts side by side, so the sum of the parts is
more than the whole.

python benchmarks/coldstart.py
python benchmarks/coldstart.py --keep DIR   # keep the index there for the next run
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import arguments, dataset, lines, p50, table, write_markdown

from hopsyncd.client import Client
from hopsyncd.errors import DaemonUnavailable
from tests.e2e.daemon import Place, source

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_POLL_S = 0.005

# Runs in a process of its own: what it imports must not be there already.
_PARTS = """
import json, sys, time

began = float(sys.argv[1]), 0.0
parts = {}

def now():
    return time.time(), time.process_time()

def done(part):
    global began
    parts[part], began = [after - before for after, before in zip(now(), began)], now()

done("interpreter")
import hopsyncd.cli.main
done("imports of the command line")
import hopsyncd.daemon
done("imports of the daemon")
from pathlib import Path
from hopsyncd.config.configuration import DATABASE_NAME, Config, load_config
from hopsyncd.retrieve.walk import WalkSettings
from hopsyncd.retrieve.engine import Engine
from hopsyncd.ingest.index_loading import load_snapshot
from hopsyncd.config.values import Search
from hopsyncd.models.language import SpacyLanguage
from hopsyncd.models.loading import load_encoder
from store.check import refuse_damaged
from store.open_database import open_writer
from store.transactions import snapshot
from store.versions import read_head

config = load_config(None)
began = now()
database = config.daemon.data_dir / DATABASE_NAME
connection = open_writer(database)
refuse_damaged(connection)
done("opening and checking the store")
encoder = load_encoder(config)
with snapshot(connection):
    served = load_snapshot(connection, read_head(connection))
done("the graph from the store")
encoder.encode([sys.argv[2]])
done("encoder, tokenizer, first vector")
engine = Engine(database, encoder, WalkSettings(hops=config.query.hops))
engine.publish(served)
engine.query(sys.argv[2], 10, Search("hop"))
done("the first query")
SpacyLanguage(config.models.language_model).find_mentions([sys.argv[2]])
done("spaCy, after the first answer")
print(json.dumps(parts))
"""


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "help": "The folder of the index, kept. Default: a passing one"}),
        ("--drop-caches", {"action": "store_true", "help": "Once from the disk too (as root)"}),
        ("--rounds", {"type": int, "default": 5, "help": "Default: 5"}),
    )
    folder = dataset(given.data, "hotpotqa")
    question = lines(folder / "questions.jsonl")[0]["question"]
    with _base(given.keep) as base, contextlib.closing(Place(base)) as place:
        _index(place, folder)
        load = os.getloadavg()[0]
        warm = [_started(place, question) for _ in range(given.rounds)]
        parts = [_parts(place, question) for _ in range(given.rounds)]
        rows = [_row("files in the page cache", warm)]
        if given.drop_caches:
            os.sync()
            _DROP_CACHES.write_text("3\n")
            rows.append(_row("page cache dropped", [_started(place, question)]))
    print(f"{given.rounds} starts, load before {load:.1f}; seconds\n")
    columns = ["start", "first status", "first answer: best", "p50", "worst"]
    table([*columns, "processor until then", "RSS then, MB"], rows)
    table(
        ["part, one after the other", "best", "p50", "processor: best"],
        [[part, *_figures([one[part] for one in parts])] for part in parts[0]],
    )


@contextlib.contextmanager
def _base(kept: Path | None) -> Iterator[Path]:
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
    else:
        with tempfile.TemporaryDirectory(prefix="hop-") as base:
            yield Path(base)


def _index(place: Place, folder: Path) -> None:
    """Index the passages with a daemon, then stop it."""
    if not (place.notes / "passages").exists():
        write_markdown(folder / "corpus.jsonl", place.notes / "passages")
        place.configure(source("notes", place.notes))
    place.start()
    place.sync()
    place.stop()


def _started(place: Place, question: str) -> tuple[float, float, float, float]:
    """Return the seconds to the first status and to the first answer, and the processor seconds and
    the memory at that time."""
    began_s = time.monotonic()
    place.launch()
    assert place.process is not None
    with Client(place.socket) as client:
        while True:
            try:
                client.get("/v1/status")
                break
            except DaemonUnavailable:
                time.sleep(_POLL_S)
        status_s = time.monotonic() - began_s
        while not client.post("/v1/query", {"question": question})["passages"]:
            time.sleep(_POLL_S)
        answer_s = time.monotonic() - began_s
    processor_s, resident_mb = _processor_s(place.process.pid), _resident_mb(place.process.pid)
    place.stop()
    return status_s, answer_s, processor_s, resident_mb


def _parts(place: Place, question: str) -> dict[str, tuple[float, float]]:
    """Return the wall-clock and processor seconds of each part."""
    ran = subprocess.run(
        [sys.executable, "-c", _PARTS, str(time.time()), question],
        env={**os.environ, "HOPSYNCD_HOME": str(place.home)},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    parts: dict[str, tuple[float, float]] = json.loads(ran.stdout)
    return parts


def _row(name: str, started: list[tuple[float, float, float, float]]) -> list[object]:
    status, answer, processor, resident_mb = zip(*started, strict=True)
    return [
        name,
        *map(_seconds, (p50(status), min(answer), p50(answer), max(answer), p50(processor))),
        f"{p50(resident_mb):.0f}",
    ]


def _figures(timed: list[tuple[float, float]]) -> list[str]:
    wall, processor = zip(*timed, strict=True)
    return [_seconds(value) for value in (min(wall), p50(wall), min(processor))]


def _seconds(value: float) -> str:
    return f"{value:.2f}"


def _processor_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_name[11:13])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes) / 1024


if __name__ == "__main__":
    main()
