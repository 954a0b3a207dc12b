"""The memory of a daemon and its helper processes that have had nothing to do for five minutes.

A daemon indexes the HotpotQA passages as Markdown files, is started again, and gets an edit and a
question. Five minutes later its memory is counted. Then the benchmark sends
another question, another edit, and a question about a date. Each of them needs a process that has
ended meanwhile.

python benchmarks/idle.py
python benchmarks/idle.py --json   # also write benchmarks/results/idle.json
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import JSON, arguments, dataset, table, write_markdown, write_result

from hopsyncd.client import Client
from tests.e2e.daemon import Place, source

_COLUMNS = ("figure", "value")
_QUESTIONS = ("Who wrote the novel about Paris?", "When was the band formed?")


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--idle-s", {"type": float, "default": 300.0, "help": "Default: 300"}),
        JSON,
    )
    folder = dataset(given.data, "hotpotqa")
    with tempfile.TemporaryDirectory(prefix="hop-") as base:
        place = Place(Path(base))
        write_markdown(folder / "corpus.jsonl", place.notes / "passages")
        place.configure(source("notes", place.notes))
        try:
            place.start()
            place.sync()
            place.stop()
            place.start()
            rows = _measure(place, given.idle_s)
        finally:
            place.close()
    table(_COLUMNS, rows)
    if given.json:
        write_result("idle", _COLUMNS, rows)


def _measure(place: Place, idle_s: float) -> list[list[str]]:
    assert place.process is not None
    pid = place.process.pid
    with Client(place.socket) as client:

        def ask(question: str) -> None:
            client.post("/v1/ask", {"question": question})

        def edit(word: str) -> str:
            return _time(lambda: _edit(place, client, word))

        ask(_QUESTIONS[0])
        rows = [["seconds until an edit is found, in use", edit("before")]]
        rows += [[f"MB of {name}, in use", f"{size}"] for name, size in _memory(pid)]
        time.sleep(idle_s)
        idle = _memory(pid)
        rows += [[f"MB of {name}, idle", f"{size}"] for name, size in idle]
        rows.append(["MB of all processes, idle", f"{sum(size for _, size in idle)}"])
        rows.append(["seconds of a question, after that", _time(lambda: ask(_QUESTIONS[0]))])
        rows.append(["seconds until an edit is found, after that", edit("after")])
        # The edit has started the language process; let it end once more.
        time.sleep(idle_s)
        rows.append(["seconds of a question for a date, idle", _time(lambda: ask(_QUESTIONS[1]))])
        rows.append(["seconds of the same question, in use", _time(lambda: ask(_QUESTIONS[1]))])
    return rows


def _edit(place: Place, client: Client, word: str) -> None:
    """Write a note, and wait until a search finds it."""
    place.write(f"{word}.md", f"# Note\n\nMira Kaltenbrunn met xq{word} in Oslo in 1999.\n")
    while True:
        found = client.post("/v1/query", {"question": f"xq{word}"})
        if f"xq{word} in Oslo" in str(found["passages"]):
            return
        time.sleep(0.01)


def _time(run: Callable[[], None]) -> str:
    began_s = time.monotonic()
    run()
    return f"{time.monotonic() - began_s:.2f}"


def _memory(pid: int) -> list[tuple[str, int]]:
    """The name and the proportional set size in MB of a process and its descendants."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (size,) = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    name = next((word.decode() for word in words if word.startswith(b"hopsyncd")), "a process")
    found = [(name, round(size / 1000))]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _memory(int(child))
    return found


if __name__ == "__main__":
    main()
