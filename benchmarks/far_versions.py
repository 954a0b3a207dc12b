"""The time of `log`, `diff` and `why` between distant versions, as commands and as bare requests.

A real daemon, whose models take no time, indexes an invented collection. Then every fourth document
gets another sentence, and every tenth document is deleted. In the row of `why`, the first request
is the first question at either version; the command sends little more than two requests. The
processor seconds of the daemon for one request hardly change on a busy machine.

python benchmarks/far_versions.py --passages 30000
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from common import arguments, p50, processor_s, table
from invented import Invented, collection

from tests.e2e.daemon import Place, new_place, source

_ROUNDS = 5
_EDITED, _GONE = 4, 10  # one document in 4 is edited, one in 10 removed
_SENTENCE = "\nIn the end the surveyor of Upper Wick counted them all again.\n"
_LONG_S = 3600.0


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0], ("--passages", {"type": int, "default": 30_000})
    )
    documents = [*collection(given.passages)]
    with new_place(("benchmarks.fast_daemon",)) as place:
        middle, whole = _imported(place, documents)
        measure(place, documents, middle, whole, _changed(place, documents))


def measure(
    place: Place, documents: Sequence[Invented], middle: int, whole: int, head: int
) -> None:
    """Print the table."""
    asked = [document.question for document in documents[:: len(documents) // _ROUNDS]][:_ROUNDS]
    rows = [_why(place, asked, middle, head)]
    for old, new in ((1, whole), (whole, head), (head, middle)):
        path, ends = f"/v1/diff?from={old}&to={new}&graph=false", ("diff", str(old), str(new))
        rows.append(_row(place, path, ends, partial(place.get, f"{path}&limit=10")))
        rows.append(_row(place, "", (*ends, "--all"), partial(place.get, path)))
    rows.append(_row(place, "", ("log",), partial(place.get, "/v1/log")))
    rows.append(_row(place, "", ("--version",), lambda: None))
    now = place.status()
    print(f"\n{now['documents']} documents, {now['passages']} passages, {now['edges']} edges\n")
    columns = ["command", "differs", "command s", "first request s", "request s", "processor s"]
    table(columns, rows)


def _imported(place: Place, documents: Sequence[Invented]) -> tuple[int, int]:
    """Import the documents. Returns the version with about half of the passages, and the version
    with all passages."""
    for document in documents:
        place.write(document.path, document.text)
    place.configure(source("notes", place.notes))
    place.start()
    whole = _synced(place)
    log = place.get("/v1/log?limit=1000")["versions"]
    half = log[0]["passages"] / 2
    return next(entry["version"] for entry in reversed(log) if entry["passages"] >= half), whole


def _changed(place: Place, documents: Sequence[Invented]) -> int:
    for document in documents[::_EDITED]:
        place.write(document.path, document.text + _SENTENCE)
    for document in documents[1::_GONE]:
        (place.notes / document.path).unlink(missing_ok=True)
    return _synced(place)


def _synced(place: Place) -> int:
    ran = place.run("sync", "--wait", timeout_s=_LONG_S)
    assert ran.returncode == 0, ran.stderr
    return int(place.status()["version"])


def _why(place: Place, questions: Sequence[str], old: int, new: int) -> list[object]:
    turns = iter([*questions] * 2)

    def ask() -> None:
        question = next(turns)
        for at in (old, new):
            place.query(question, at=str(at))

    ends = str(old), str(new)
    return _row(place, "", ("why", questions[0], *ends), ask, ("why", *ends))


def _row(
    place: Place,
    path: str,
    command: Sequence[str],
    request: Callable[[], object],
    shown: Sequence[str] = (),
) -> list[object]:
    first_s = _seconds(request)
    ran = [_seconds(partial(_run, place, command)) for _ in range(_ROUNDS)]
    assert place.process is not None
    worked_s = processor_s(place.process.pid)
    asked = [_seconds(request) for _ in range(_ROUNDS)]
    worked_s = (processor_s(place.process.pid) - worked_s) / _ROUNDS
    counts = place.get(path)["counts"] if path else {}
    differs = ", ".join(f"{sum(numbers.values()):,} {kind}" for kind, numbers in counts.items())
    seconds = (f"{one:.2f}" for one in (p50(ran), first_s, p50(asked), worked_s))
    return [" ".join(shown or command), differs, *seconds]


def _run(place: Place, command: Sequence[str]) -> None:
    ran = place.run(*command)
    assert ran.returncode == 0, ran.stderr


def _seconds(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
