"""Measure the cost of an edit, a query, a start and an import, by the size of the collection.

An invented collection (benchmarks/invented.py) goes through the real daemon and its socket; the
models cost nothing (benchmarks/fast_daemon.py), so what is left is hopsyncd. All sizes in one run.

python benchmarks/scale.py --passages 1000 --passages 10000
python benchmarks/scale.py --passages 10000 --checkout ../older   # the same of another checkout
python benchmarks/scale.py --real           # the default models on all passages of the data sets

edit: from writing one more sentence into a file until the socket answers with it; nobody asks for a
sync. first query: the one after a commit. past: at a version before the edits, the first question
to it and further ones. masked: the first question after a commit by a member of the group from whom
a source is hidden (asked as another user, so only root measures it). memory: of the daemon and the
processes that answer for it, mapped files apart. import, last / first: what a passage of the last
tenth costs, against one of the first tenth; the cost of a version is shared equally by its
passages.
"""

import grp
import itertools
import json
import os
import pwd
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common import (
    EDIT_DEADLINE_S,
    answered_s,
    append,
    arguments,
    dataset,
    lines,
    p50,
    p95,
    table,
    write_markdown,
)
from invented import collection

from tests.e2e.daemon import HOPSYNCD, ROOT, Place, new_place, source

_SIZES = [1_000, 10_000, 100_000]
_QUESTIONS = 100
_SOURCES = 2
_WARM_UP = 10
_PAST_VERSIONS = 3
_POLL_S, _POLL_IMPORT_S = 0.002, 0.05
_GROUP = grp.getgrgid(1)
_ACCESS = f'[access]\ngroup = "{_GROUP.gr_name}"\n[limits]\nquery_s = 600\n'
_HIDDEN = 'visible_to = ["user:root"]'

# The milliseconds of each query that it is given as a line of JSON. Each has its own connection:
# one that waits for the next version may be closed meanwhile.
_MEMBER = """
import http.client, socket, sys, time
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(sys.argv[1])
member = Unix("hopsyncd")
for line in sys.stdin:
    member.close()
    began_s = time.perf_counter()
    member.request("POST", "/v1/query", line, {"Content-Type": "application/json"})
    reply = member.getresponse()
    text = reply.read()
    assert reply.status == 200, text
    print((time.perf_counter() - began_s) * 1000, flush=True)
"""

_DATASETS = ("hotpotqa", "musique", "2wiki")
_CLOSED = 10  # one document in 10 is in the source that a member does not see


@dataclass(frozen=True, slots=True)
class Collection:
    """Files that were written, some below `open` and some below `closed`, and questions to ask."""

    files: Sequence[Path]
    questions: Sequence[str]

    def ask(self, count: int) -> list[str]:
        """Draw `count` questions, always the same ones for a count."""
        return random.Random(count).choices(self.questions, k=count)


@dataclass(frozen=True, slots=True)
class Size:
    """The measurements at one size; None where one could not be taken."""

    passages: int
    edit_p50_s: float
    edit_p95_s: float
    query_p50_ms: float
    query_p95_ms: float
    first_query_ms: float
    past_first_ms: float
    past_p50_ms: float
    masked_p50_ms: float | None
    rss_mb: float
    mapped_mb: float
    start_s: float
    import_s: float
    import_first_s: float
    import_last_over_first: float
    versions: int


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--passages", {"type": int, "action": "append", "help": f"Default: {_SIZES}"}),
        ("--edits", {"type": int, "default": 20}),
        ("--checkout", {"type": Path, "default": ROOT, "help": "Another hopsyncd's worktree"}),
        ("--real", {"action": "store_true", "help": "The default models on the data sets"}),
        ("--json", {"action": "store_true"}),
    )
    if given.real:
        sizes = [_measured(HOPSYNCD, lambda notes: _real(given.data, notes), given.edits)]
    else:
        program = ("benchmarks.fast_daemon", str(given.checkout.resolve()))
        sizes = [
            _measured(program, partial(_invented, passages), given.edits)
            for passages in given.passages or _SIZES
        ]
    if given.json:
        print(json.dumps({"sizes": [asdict(size) for size in sizes]}))
        return
    table(
        ["what", *(f"{size.passages:,}" for size in sizes)],
        [[name, *(_shown(asdict(size)[name]) for size in sizes)] for name in asdict(sizes[0])][1:],
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"


def _invented(passages: int, notes: Path) -> Collection:
    files, questions = list[Path](), list[str]()
    for number, document in enumerate(collection(passages)):
        file = notes / ("open" if number % _CLOSED else "closed") / document.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document.text, encoding="utf-8")
        files.append(file)
        questions.append(document.question)
    if len(files) < _SOURCES:
        raise SystemExit(f"{passages} passages are one document: there is none for each source")
    return Collection(files, questions)


def _real(data: Path, notes: Path) -> Collection:
    folders = [dataset(data, name) for name in _DATASETS]
    files = [
        file
        for folder in folders
        for file in write_markdown(folder / "corpus.jsonl", notes / "open" / folder.name)
    ]
    (notes / "closed").mkdir()
    for file in files[::_CLOSED]:
        file.rename(notes / "closed" / file.name)
    asked = [folder / "questions.jsonl" for folder in folders]
    return Collection(
        [file for file in files if file.exists()],
        [line["question"] for file in asked if file.is_file() for line in lines(file)],
    )


def _measured(program: Sequence[str], written_to: Callable[[Path], Collection], edits: int) -> Size:
    with new_place(program) as place:
        for folder in (place.base, place.home):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        written = written_to(place.notes)
        place.configure(
            _ACCESS
            + source("open", place.notes / "open")
            + source("closed", place.notes / "closed", _HIDDEN)
        )
        import_s, first_s, ratio, versions, passages = _import(place)
        place.stop()
        start_s = _start(place, written.ask(1)[0])
        query_ms = _queries(place, written.ask(_QUESTIONS))
        edit_s, first_ms, masked_ms = _edits(place, written, edits)
        past_first_ms, past_ms = _past(place, written.ask(_WARM_UP), versions)
        rss_mb, mapped_mb = _memory(place)
    size = Size(
        passages=passages,
        edit_p50_s=p50(edit_s),
        edit_p95_s=p95(edit_s),
        query_p50_ms=p50(query_ms),
        query_p95_ms=p95(query_ms),
        first_query_ms=p50(first_ms),
        past_first_ms=p50(past_first_ms),
        past_p50_ms=p50(past_ms),
        masked_p50_ms=p50(masked_ms) if masked_ms else None,
        rss_mb=rss_mb,
        mapped_mb=mapped_mb,
        start_s=start_s,
        import_s=import_s,
        import_first_s=first_s,
        import_last_over_first=ratio,
        versions=versions,
    )
    print(json.dumps(asdict(size)), file=sys.stderr)
    return size


def _import(place: Place) -> tuple[float, float, float, int, int]:
    """Seconds of the import and until its first version; last tenth over first; versions, and
    passages at its end."""
    place.start()
    began_s, reached, is_over = time.monotonic(), [(0.0, 0)], False
    while not is_over:
        time.sleep(_POLL_IMPORT_S)
        now = place.status()
        if now["passages"] > reached[-1][1]:
            reached.append((time.monotonic() - began_s, now["passages"]))
        scanned = [one["name"] for one in now["sources"] if one["scanned"]]
        is_over = len(scanned) == _SOURCES and not now["syncing"]
    total = reached[-1][1]
    first_s = _when(reached, total / 10)
    last_s = reached[-1][0] - _when(reached, total * 0.9)
    return reached[-1][0], reached[1][0], last_s / first_s, int(now["version"]), total


def _when(reached: Sequence[tuple[float, int]], passages: float) -> float:
    """The moment at which so many were held, if each version had come passage by passage."""
    for (from_s, fewer), (to_s, more) in itertools.pairwise(reached):
        if more >= passages:
            return from_s + (to_s - from_s) * (passages - fewer) / (more - fewer)
    return reached[-1][0]


def _start(place: Place, question: str) -> float:
    began_s = time.monotonic()
    place.start()
    assert place.query(question)
    return time.monotonic() - began_s


def _queries(place: Place, questions: Sequence[str]) -> list[float]:
    for question in questions[:_WARM_UP]:
        place.query(question)
    return [_query_ms(place, question) for question in questions]


def _query_ms(place: Place, question: str, **more: Any) -> float:
    began_s = time.perf_counter()
    place.query(question, **more)
    return (time.perf_counter() - began_s) * 1000


def _edits(
    place: Place, written: Collection, edits: int
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each edit, milliseconds of the first query after a commit, and of a member's."""
    questions, files = written.ask(2 * edits), written.files
    edit_s = [answered_s(place, files[7 * at % len(files)], at, _POLL_S) for at in range(edits)]
    first_ms, masked_ms = list[float](), list[float]()
    with _member(place) as ask:
        for at in range(edits):
            file = files[(7 * at + 3) % len(files)]
            _committed(place, file, at)
            first_ms.append(_query_ms(place, questions[at]))
            if ask:
                _committed(place, file, edits + at)
                masked_ms.append(ask(questions[edits + at]))
    return edit_s, first_ms, masked_ms


def _committed(place: Place, file: Path, number: int) -> None:
    """Edit a file and wait until its version is served."""
    before = place.status()["version"]
    append(file, f"Number {number} was seen by Ottoline Vesperwick{number}.")
    place.until(lambda: place.status()["version"] > before, EDIT_DEADLINE_S)


@contextmanager
def _member(place: Place) -> Iterator[Any]:
    """What asks as a member of the group, who may not see a source; None where we are not root."""
    if os.geteuid() != 0:
        yield None
        return
    asking = subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", _MEMBER, str(place.socket)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=pwd.getpwnam("nobody").pw_uid,
        group=_GROUP.gr_gid,
        extra_groups=[_GROUP.gr_gid],
    )
    assert asking.stdin and asking.stdout
    told, heard = asking.stdin, asking.stdout

    def ask(question: str) -> float:
        told.write(json.dumps({"question": question}) + "\n")
        told.flush()
        return float(heard.readline())

    with asking:
        yield ask
        told.close()


def _past(place: Place, questions: Sequence[str], version: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the first question to a past version, and of further ones."""
    first_ms, more_ms = list[float](), list[float]()
    for at in range(version, version + _PAST_VERSIONS):
        took_ms = [_query_ms(place, question, at=str(at)) for question in questions]
        first_ms.append(took_ms[0])
        more_ms += took_ms[1:]
    return first_ms, more_ms


def _memory(place: Place) -> tuple[float, float]:
    """MB of the daemon and of its children that answer: its own, and mapped from files."""
    assert place.process is not None
    daemon = str(place.process.pid)
    found = [daemon]
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and _field(process / "status", "PPid") == int(daemon):
            command = (process / "cmdline").read_bytes()
            found += [] if b"reader_worker" in command else [process.name]
    own, mapped = (
        sum(_field(Path(f"/proc/{pid}/status"), name) for pid in found)
        for name in ("RssAnon", "RssFile")
    )
    return own / 1024, mapped / 1024


def _field(file: Path, name: str) -> int:
    """A number of a process's status; 0 if the process has ended."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


if __name__ == "__main__":
    main()
