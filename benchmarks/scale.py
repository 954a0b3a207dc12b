"""Measure the cost of an edit, a query, a start and an import, by the size of the collection.

The real daemon indexes an invented collection (benchmarks/invented.py), and questions are asked
over the socket. The models take no time (benchmarks/fast_daemon.py). One run measures all sizes.

python benchmarks/scale.py --passages 1000 --passages 10000
python benchmarks/scale.py --passages 1000000 --home /var/h --resume   # may be stopped at any time
python benchmarks/scale.py --passages 10000 --checkout ../older   # the same of another checkout
python benchmarks/scale.py --real           # the default models on all passages of the data sets

--home keeps each size in a folder. With --resume, measured sizes are not measured again and a
stopped import continues, so one command makes the table of all sizes.

edit: from writing one more sentence into a file until the socket answers with it; nobody asks for a
sync, and two readers ask all the time. A tenth of the edits comes right after the import, a tenth
right after a start. first query: the first query after a commit. past: the first and later
questions at a version before the edits. member: a member of the group, from whom a source is
hidden; measured only by root, because another user asks. memory: the private memory of the daemon
and of each query worker, a few seconds after their last work; mapped files are counted once.
import, last / first: the cost of a passage in the last tenth divided by the cost in the first
tenth; the passages of a version share its cost equally. while all documents are read again: the
edits at the end, after a start with another target size of passages that cuts the same passages.
"""

import itertools
import json
import math
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import disk
from askers import GROUP, member, readers
from common import (
    EDIT_DEADLINE_S,
    JSON,
    answered_s,
    append,
    arguments,
    dataset,
    lines,
    measure_memory,
    p50,
    p95,
    table,
    write_markdown,
    write_result,
)
from invented import collection

from tests.e2e.daemon import HOPSYNCD, ROOT, Place, new_place, source

_SIZES = [1_000, 10_000, 100_000]
_QUESTIONS = 100
_SOURCES = 2
_WARM_UP = 10
_PAST_VERSIONS = 3
_POLL_S, _POLL_FIRST_S = 0.01, 0.05
_POLL_IMPORT_S = 0.5  # once something is searchable: each status takes time from the import
_REST_S = 10.0  # after work, in which an index of a million passages may be saved
_ACCESS = f'[access]\ngroup = "{GROUP.gr_name}"\n[limits]\nquery_s = 600\n'
_HIDDEN = 'visible_to = ["user:root"]'

_FIRST_QUERIES = 20
_KEPT = "size.json"
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
    """The measurements at one size; a measurement that could not be made is None.

    `tenths_s` are the seconds of each tenth of the import, `import_cpu_s` its processor seconds, if
    it was not stopped. `disk` has the bytes on disk per passage, by part.
    """

    passages: int
    import_s: float
    tenths_s: Sequence[float]
    import_first_s: float
    versions: int
    parts: int
    member_after_import_s: float | None
    edits_after_import_s: Sequence[float]
    stop_s: float
    start_s: float
    member_after_start_s: float | None
    edits_after_start_s: Sequence[float]
    edits_s: Sequence[float]
    query_p50_ms: float
    query_p95_ms: float
    first_query_ms: float
    past_first_ms: float
    past_p50_ms: float
    masked_p50_ms: float | None
    memory_after_import: Mapping[str, Any]
    memory: Mapping[str, Any]
    disk: Mapping[str, float]
    import_cpu_s: float | None = None
    edits_while_read_again_s: Sequence[float] = ()

    @property
    def all_edits_s(self) -> list[float]:
        return [*self.edits_after_import_s, *self.edits_after_start_s, *self.edits_s]


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--passages", {"type": int, "action": "append", "help": f"Default: {_SIZES}"}),
        ("--edits", {"type": int, "default": 200}),
        ("--checkout", {"type": Path, "default": ROOT, "help": "Another hopsyncd's worktree"}),
        ("--real", {"action": "store_true", "help": "The default models on the data sets"}),
        ("--home", {"type": Path, "help": "Keep each size in a folder here; a short path"}),
        ("--resume", {"action": "store_true", "help": "Go on with what --home has"}),
        JSON,
    )
    sizes = []
    if given.real:
        with _place(HOPSYNCD, None) as place:
            sizes.append(_measure(place, lambda notes: _real(given.data, notes), given.edits))
    else:
        program = ("benchmarks.fast_daemon", str(given.checkout.resolve()))
        for passages in given.passages or _SIZES:
            folder = given.home / str(passages) if given.home else None
            sizes.append(_size(program, passages, folder, given.edits, given.resume))
    columns = ["what", *(f"{size.passages:,}" for size in sizes)]
    rows = [[name, *(_rounded(compute(size)) for size in sizes)] for name, compute in _ROWS.items()]
    if len(sizes) > 1:
        columns.append("grows with n to the")
        rows = [[*row, _law(sizes, row[1:])] for row in rows]
    if given.json:
        write_result("scale", columns, rows)
    table(columns, [[row[0], *map(_shown, row[1:])] for row in rows])


def _size(
    program: Sequence[str], passages: int, folder: Path | None, edits: int, resumes: bool
) -> Size:
    """Measure one size, or read its earlier measurements from its folder."""
    if folder and not resumes:
        shutil.rmtree(folder, ignore_errors=True)
    if folder and (kept := folder / _KEPT).exists():
        return Size(**json.loads(kept.read_text(encoding="utf-8")))
    with _place(program, folder) as place:
        size = _measure(place, partial(_invent_collection, passages), edits)
    if folder:
        (folder / _KEPT).write_text(json.dumps(asdict(size)), encoding="utf-8")
    return size


@contextmanager
def _place(program: Sequence[str], folder: Path | None) -> Iterator[Place]:
    """Yield a new place, or the place in the folder. The folder is kept."""
    if folder is None:
        with new_place(program) as place:
            yield place
        return
    folder.mkdir(parents=True, exist_ok=True)
    place = Place(folder, program)
    try:
        yield place
    finally:
        place.close()


def _law(sizes: Sequence[Size], values: Sequence[object]) -> float | None:
    """The exponent e of the best fit of values = c * passages ** e; None if there is no fit."""
    known = [
        (math.log(size.passages), math.log(value))
        for size, value in zip(sizes, values, strict=True)
        if isinstance(value, int | float) and value > 0
    ]
    if len(known) < 2:
        return None
    return round(statistics.linear_regression(*zip(*known, strict=True)).slope, 2)


def _disk_part(part: str, size: "Size") -> float | None:
    return size.disk.get(part)


_ROWS: dict[str, Callable[[Size], float | None]] = {
    "import, s": lambda size: size.import_s,
    "import, processor s": lambda size: size.import_cpu_s,
    "import: ms a passage": lambda size: 1000 * size.import_s / size.passages,
    "import: cost of the last tenth / cost of the first": lambda size: (
        size.tenths_s[-1] / size.tenths_s[0]
    ),
    "import: versions": lambda size: size.versions,
    "edit to answer, p50, s": lambda size: p50(size.all_edits_s),
    "edit to answer, p95, s": lambda size: p95(size.all_edits_s),
    "edit to answer, slowest, s": lambda size: max(size.all_edits_s),
    "slowest edit after the import, s": lambda size: max(size.edits_after_import_s),
    "slowest edit after a start, s": lambda size: max(size.edits_after_start_s),
    "edit while all documents are read again, p50, s": lambda size: (
        p50(size.edits_while_read_again_s) if size.edits_while_read_again_s else None
    ),
    "slowest edit while all documents are read again, s": lambda size: max(
        size.edits_while_read_again_s, default=None
    ),
    "question, p50, ms": lambda size: size.query_p50_ms,
    "question, p95, ms": lambda size: size.query_p95_ms,
    "first question after a commit, ms": lambda size: size.first_query_ms,
    "first question at a past version, ms": lambda size: size.past_first_ms,
    "member with a hidden source: question after a commit, ms": lambda size: size.masked_p50_ms,
    "member: first question after the import, s": lambda size: size.member_after_import_s,
    "member: first question after a start, s": lambda size: size.member_after_start_s,
    "start to first answer, s": lambda size: size.start_s,
    "stop, s": lambda size: size.stop_s,
    "memory of the daemon after the import and some edits, MB": lambda size: (
        size.memory_after_import["daemon_mb"]
    ),
    "memory of the daemon, MB": lambda size: size.memory["daemon_mb"],
    "memory of a query worker, MB": lambda size: max(size.memory["workers_mb"], default=None),
    "mapped files in memory, MB": lambda size: size.memory["mapped_mb"],
    "bytes on disk a passage": lambda size: sum(size.disk.values()),
}
_ROWS |= {f"bytes a passage: {part}": partial(_disk_part, part) for part in disk.PARTS}


def _rounded(value: float | None) -> float | None:
    """Return the value with three significant digits; integers stay integers."""
    if value is None or isinstance(value, int) or value >= 1000:
        return None if value is None else round(value)
    return float(f"{value:.3g}")


def _shown(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, int | float) else "-"


def _invent_collection(passages: int, notes: Path) -> Collection:
    files, questions = list[Path](), list[str]()
    for number, document in enumerate(collection(passages)):
        file = notes / ("open" if number % _CLOSED else "closed") / document.path
        if not file.exists():  # else an import that was stopped goes on
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


def _measure(place: Place, written_to: Callable[[Path], Collection], edits: int) -> Size:
    for folder in (place.base, place.home):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    written = written_to(place.notes)
    _configure(place)
    imported = _import(place)
    few = max(1, edits // 10)
    member_s = _member_s(place, written.ask(1)[0])
    after_import_s = _edits(place, written, range(few))
    memory_after_import = _measure_memory(place)
    _, stop_s = place.stop()
    start_s = _start(place, written.ask(1)[0])
    after_start_s = _edits(place, written, range(few, 2 * few))
    place.stop()
    place.start()
    member_start_s = _member_s(place, written.ask(1)[0])
    edit_s = _edits(place, written, range(2 * few, edits))
    query_ms = _queries(place, written.ask(_QUESTIONS))
    first_ms, masked_ms = _first_queries(place, written, edits)
    past_first_ms, past_ms = _past(place, written.ask(_WARM_UP), imported.versions)
    memory = _measure_memory(place)
    place.stop()
    bytes_on_disk = disk.measure(place.home / "data", imported.passages)
    read_again_s = _edits_while_read_again(place, written, range(edits, 2 * edits))
    size = Size(
        passages=imported.passages,
        import_s=imported.seconds,
        tenths_s=imported.tenths_s,
        import_first_s=imported.first_s,
        versions=imported.versions,
        parts=imported.parts,
        member_after_import_s=member_s,
        edits_after_import_s=after_import_s,
        stop_s=stop_s,
        start_s=start_s,
        member_after_start_s=member_start_s,
        edits_after_start_s=after_start_s,
        edits_s=edit_s,
        query_p50_ms=p50(query_ms),
        query_p95_ms=p95(query_ms),
        first_query_ms=p50(first_ms),
        past_first_ms=p50(past_first_ms),
        past_p50_ms=p50(past_ms),
        masked_p50_ms=p50(masked_ms) if masked_ms else None,
        memory_after_import=memory_after_import,
        memory=memory,
        disk=bytes_on_disk,
        import_cpu_s=imported.cpu_s if imported.parts == 1 else None,
        edits_while_read_again_s=read_again_s,
    )
    print(json.dumps(asdict(size)), file=sys.stderr)
    return size


def _configure(place: Place, more: str = "") -> None:
    place.configure(
        more
        + _ACCESS
        + source("open", place.notes / "open")
        + source("closed", place.notes / "closed", _HIDDEN)
    )


@dataclass(frozen=True, slots=True)
class _Imported:
    """An import, perhaps of several parts. A stopped part loses what it had not committed."""

    seconds: float
    first_s: float
    tenths_s: Sequence[float]
    versions: int
    passages: int
    parts: int
    cpu_s: float


def _import(place: Place) -> _Imported:
    """Start an import, or continue one that was stopped."""
    progress = place.base / "progress.jsonl"
    lines = progress.read_text(encoding="utf-8").splitlines() if progress.exists() else []
    reached: list[list[float]] = [[0.0, 0], *map(json.loads, lines)]
    (place.base / "parts").open("a").write("part\n")
    parts = len((place.base / "parts").read_text().splitlines())
    place.start()
    began_s, before_s, is_over = time.monotonic(), reached[-1][0], False
    with progress.open("a", encoding="utf-8") as file:
        while not is_over:
            time.sleep(_POLL_IMPORT_S if reached[-1][1] else _POLL_FIRST_S)
            now = place.status()
            if now["passages"] > reached[-1][1]:
                reached.append([before_s + time.monotonic() - began_s, now["passages"]])
                print(json.dumps(reached[-1]), file=file, flush=True)
            scanned = [one["name"] for one in now["sources"] if one["scanned"]]
            is_over = len(scanned) == _SOURCES and not now["syncing"]
    total = int(reached[-1][1])
    ends_s = [_when(reached, total * tenth / 10) for tenth in range(11)]
    tenths_s = [end_s - start_s for start_s, end_s in itertools.pairwise(ends_s)]
    first_s = reached[min(1, len(reached) - 1)][0]
    version, cpu_s = int(now["version"]), _processor_s(place)
    return _Imported(reached[-1][0], first_s, tenths_s, version, total, parts, cpu_s)


def _measure_memory(place: Place) -> dict[str, Any]:
    """Return the memory, after the daemon had time to release memory."""
    time.sleep(_REST_S)
    return asdict(measure_memory(place))


def _processor_s(place: Place) -> float:
    """The processor seconds that the daemon has taken, without its children."""
    assert place.process is not None
    stat = Path(f"/proc/{place.process.pid}/stat").read_text(encoding="utf-8")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _when(reached: Sequence[Sequence[float]], passages: float) -> float:
    """The time at which `passages` were reached, if each version's passages had come one by one."""
    for (from_s, fewer), (to_s, more) in itertools.pairwise(reached):
        if more >= passages and more > fewer:
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


def _edits(place: Place, written: Collection, numbers: range) -> list[float]:
    """The seconds of each edit, while readers ask."""
    files = written.files
    with readers(place, written.ask(_QUESTIONS)):
        return [answered_s(place, files[7 * at % len(files)], at, _POLL_S) for at in numbers]


def _edits_while_read_again(place: Place, written: Collection, numbers: range) -> list[float]:
    """The seconds of each edit, while readers ask, until all documents are read again by rules that
    make the same passages."""
    _configure(place, "[index]\npassage_tokens = 401\n")
    place.start()
    took_s = list[float]()
    with readers(place, written.ask(_QUESTIONS)):
        for at in numbers:
            took_s.append(
                answered_s(place, written.files[7 * at % len(written.files)], at, _POLL_S)
            )
            if not place.status()["syncing"]:
                break
    place.stop()
    return took_s


def _member_s(place: Place, question: str) -> float | None:
    """Return the seconds for a question of a member who may not see a source, or None unless root
    runs the benchmark."""
    with member(place) as ask:
        return ask(question) / 1000 if ask else None


def _first_queries(
    place: Place, written: Collection, edits: int
) -> tuple[list[float], list[float]]:
    """The milliseconds of the first query after a commit, and of a member's first query."""
    count = min(edits, _FIRST_QUERIES)
    questions, files = written.ask(2 * count), written.files
    first_ms, masked_ms = list[float](), list[float]()
    with member(place) as ask:
        for index in range(count):
            file = files[(7 * index + 3) % len(files)]
            _commit_edit(place, file, index)
            first_ms.append(_query_ms(place, questions[index]))
            if ask:
                _commit_edit(place, file, edits + index)
                masked_ms.append(ask(questions[count + index]))
    return first_ms, masked_ms


def _commit_edit(place: Place, file: Path, number: int) -> None:
    """Edit a file and wait until its version is served."""
    before = place.status()["version"]
    append(file, f"Number {number} was seen by Ottoline Vesperwick{number}.")
    place.until(lambda: place.status()["version"] > before, EDIT_DEADLINE_S)


def _past(place: Place, questions: Sequence[str], version: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of the first question to a past version, and of later questions."""
    first_ms, more_ms = list[float](), list[float]()
    for index in range(version, version + _PAST_VERSIONS):
        took_ms = [_query_ms(place, question, at=str(index)) for question in questions]
        first_ms.append(took_ms[0])
        more_ms += took_ms[1:]
    return first_ms, more_ms


if __name__ == "__main__":
    main()
