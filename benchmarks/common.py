"""Shared by the benchmarks: the data, Markdown tables, a daemon on a folder of passages, and an
LLM with scripted replies."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

# As the command line does it, before numpy and torch are loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# The daemon of the end-to-end tests serves here too.
sys.path.insert(0, str(Path(__file__).parents[1]))
from hopsyncd.evaluation.measures import Share
from hopsyncd.models.llm.budget import estimate_tokens
from tests.e2e.daemon import Place, new_place, source
from tests.fakes.llm import FakeLlm

_REPLY_TOKENS = 60  # a guess at what such a reply takes

EDIT_DEADLINE_S = 600.0
ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared/data"
RESULTS = ROOT / "benchmarks/results"
# For programs that call `write_result`.
JSON = ("--json", {"action": "store_true", "help": "Write the result to benchmarks/results."})


def arguments(description: str, *more: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    """Parse the command line: `--data`, and the options of the benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=DATA, help=f"Default: {DATA}")
    for name, options in more:
        parser.add_argument(name, **options)
    return parser.parse_args()


def dataset(data: Path, name: str) -> Path:
    """The folder of a data set. If it is missing, ends the benchmark with success."""
    folder = data / name
    if not (folder / "corpus.jsonl").is_file():
        print(f"skipped: {folder}/corpus.jsonl is absent; name the data with --data")
        sys.exit(0)
    return folder


def real_documents(data: Path) -> Path:
    """The folder of real documents. If it is missing, ends the benchmark with success."""
    folder = data / "realdocs"
    if not folder.is_dir():
        print(f"skipped: {folder} is absent; name the data with --data")
        sys.exit(0)
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_markdown(corpus: Path, folder: Path) -> list[Path]:
    """Write a file for each passage, with its title as the heading."""
    folder.mkdir(parents=True)
    files = []
    for line in lines(corpus):
        file = folder / f"{line['id']}.md"
        file.write_text(f"# {line['title']}\n\n{line['text']}\n", encoding="utf-8")
        files.append(file)
    return files


@contextmanager
def indexed_daemon(corpus: Path, settings: str = "") -> Iterator[tuple[Place, list[Path]]]:
    """Run a daemon that has indexed the corpus. Yields the daemon and the files that it watches.

    `settings` are sections for the daemon's configuration.
    """
    with new_place() as place:
        files = write_markdown(corpus, place.notes / "passages")
        place.configure(source("notes", place.notes, settings))
        place.start()
        place.sync()
        yield place, files


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as document:
        document.write(f"{text}\n")


def answered_s(place: Place, file: Path, number: int, poll_s: float, before: str = "") -> float:
    """The seconds from writing a fact at the end of a file until the daemon answers with it."""
    fact = f"The custodian of ledger {number} is Ximena Quolbridge{number}."
    question = f"Who is the custodian of ledger {number}, Ximena Quolbridge{number}?"
    began_s = time.monotonic()
    append(file, before + fact)
    while not any(fact in passage["text"] for passage in place.query(question)):
        if time.monotonic() - began_s > EDIT_DEADLINE_S:
            raise SystemExit(f"not answered within {EDIT_DEADLINE_S} s")
        time.sleep(poll_s)
    return time.monotonic() - began_s


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table with numbers aligned right."""
    print("| " + " | ".join(columns) + " |")
    print("|" + "|".join([" --- ", *[" ---: "] * (len(columns) - 1)]) + "|")
    for row in rows:
        print("| " + " | ".join(_cell(value) for value in row) + " |")
    print(flush=True)


def write_result(
    name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], folder: Path = RESULTS
) -> Path:
    """Write a table to `NAME.json`, with the command, commit, date and machine of this run.

    The title, the section and the texts of an older result of that name are kept.
    `scripts/benchmarks_doc` makes docs/benchmarks.md from all results."""
    path = folder / f"{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    result = {
        "title": name,
        "section": "Unsorted",
        "order": 1000,
        "shown": True,
        **kept,
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *_options()]),
        "commit": _commit(),
        "commit_note": "",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "text": kept.get("text", ""),
        "columns": list(columns),
        "notes": kept.get("notes", ""),
    }
    result.pop("rows", None)
    head = json.dumps(result, indent=2, ensure_ascii=False)[:-2]
    rounded = [[_to_json(cell) for cell in row] for row in rows]
    lines_of_rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rounded)
    path.write_text(f'{head},\n  "rows": [\n{lines_of_rows}\n  ]\n}}\n', encoding="utf-8")
    return path


def _options() -> list[str]:
    """The options of this run, without `--json` and without options whose value is a local path."""
    options = [*sys.argv[1:], ""]
    return [
        option
        for option, value in pairwise(options)
        if option != "--json" and not option.startswith("/") and not value.startswith("/")
    ]


def _commit() -> str:
    """Return the commit of this working tree, with a mark if tracked files have changed."""
    git = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    commit = git(["git", "rev-parse", "--short=7", "HEAD"]).stdout.strip()
    measured = ["hopsyncd", "store", "connectors", "benchmarks/*.py"]
    changed = git(["git", "status", "--porcelain", "--untracked-files=no", "--", *measured]).stdout
    return f"{commit} with changes" if changed.strip() else str(commit)


def _to_json(value: object) -> object:
    """Convert a share to a list: the percentage, and the ends of its interval."""
    if isinstance(value, Share):
        return [round(part, 1) for part in (float(value), value.low, value.high)]
    return round(value, 4) if isinstance(value, float) else value


def _cell(value: object) -> str:
    if isinstance(value, Share):
        return f"{value:.1f} ({value.low:.0f} to {value.high:.0f})"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def scripted_llm(reply: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> FakeLlm:
    """An LLM that replies to the data of each call, and counts tokens like an endpoint."""
    return FakeLlm(
        lambda call: json.dumps(reply(json.loads(call.user))),
        lambda call: (estimate_tokens(call.system + call.user), _REPLY_TOKENS),
    )


def processor_s(pid: int) -> float:
    """The processor seconds of a process and its running child processes."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    pids = {pid, *(int(one) for file in listed for one in file.read_text().split())}
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def memory_mb(place: Place, name: str = "RssAnon") -> float:
    """The memory in MB of the daemon and its children that answer, without mapped files."""
    assert place.process is not None
    return sum(process_field(pid, name) for pid in _answering(place.process.pid)) / 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory in MB of a daemon and its query workers.

    daemon_mb, workers_mb: private memory (Pss_Anon of smaps_rollup and swap), which the kernel
    cannot drop. mapped_mb: the pages of mapped files in memory, with shared pages counted once
    (Pss_File); the kernel drops these pages if other processes need memory.
    """

    daemon_mb: float
    workers_mb: list[float]
    mapped_mb: float


def measure_memory(place: Place) -> Memory:
    """The memory of the daemon and of its children that answer."""
    assert place.process is not None
    daemon, *workers = [_read_rollup(pid) for pid in _answering(place.process.pid)]
    return Memory(
        (daemon["Pss_Anon"] + daemon["SwapPss"]) / 1024,
        [(worker["Pss_Anon"] + worker["SwapPss"]) / 1024 for worker in workers if worker["Pss"]],
        sum(one["Pss_File"] for one in (daemon, *workers)) / 1024,
    )


def _read_rollup(pid: int) -> Counter[str]:
    """The fields of a process's smaps_rollup in kB; zeros if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return Counter()
    return Counter({line.split(":")[0]: int(line.split()[1]) for line in lines})


def most_memory_mb(place: Place) -> float:
    """The highest memory in MB that the daemon itself has used, including mapped files."""
    assert place.process is not None
    return process_field(place.process.pid, "VmHWM") / 1024


def _answering(daemon: int) -> list[int]:
    """The process ids of the daemon and its children, without processes that read documents."""
    found = [daemon]
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and process_field(int(process.name), "PPid") == daemon:
            command = (process / "cmdline").read_bytes()
            found += [] if b"reader_worker" in command else [int(process.name)]
    return found


def process_field(pid: int, name: str) -> int:
    """A number from a process's status; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return int(next((line.split()[1] for line in lines if line.startswith(f"{name}:")), 0))


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]
