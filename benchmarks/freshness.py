"""How soon an edit is answerable, and what it costs: the HotpotQA passages as Markdown files.

Each edit appends a new fact to one file. The clock runs from before the write until a query over
the socket returns the passage with the fact; nobody asks for a sync. At the end the folder is
renamed.

python benchmarks/freshness.py
"""

import time
from collections.abc import Callable
from pathlib import Path

from common import arguments, dataset, indexed_daemon, p50, p95, table

from tests.e2e.daemon import Place

_POLL_S = 0.01
_DEADLINE_S = 60.0


def main() -> None:
    given = arguments(__doc__ or "", ("--edits", {"type": int, "default": 50}))
    corpus = dataset(given.data, "hotpotqa") / "corpus.jsonl"
    with indexed_daemon(corpus) as (place, files):
        chosen = files[:: max(1, len(files) // given.edits)][: given.edits]
        edits = [_edit(place, file, number) for number, file in enumerate(chosen)]
        renamed_s, made = _rename(place)
    took_s = [seconds for seconds, _ in edits]
    print(f"{len(files)} files; time from the write to the answer, in seconds\n")
    table(
        ["change", "times", "p50", "p95", "max", "passages generated, each"],
        [
            [
                "a new fact in one file",
                len(edits),
                f"{p50(took_s):.2f}",
                f"{p95(took_s):.2f}",
                f"{max(took_s):.2f}",
                ", ".join(sorted({str(count) for _, count in edits})),
            ],
            ["the folder renamed", 1, *[f"{renamed_s:.2f}"] * 3, made],
        ],
    )


def _edit(place: Place, file: Path, number: int) -> tuple[float, int]:
    """Seconds until the fact is answered, and for how many passages questions were made."""
    before = place.generated()
    fact = f"The custodian of ledger {number} is Ximena Quolbridge{number}."
    question = f"Who is the custodian of ledger {number}, Ximena Quolbridge{number}?"
    text = file.read_text(encoding="utf-8")
    began_s = time.monotonic()
    file.write_text(f"{text}\n{fact}\n", encoding="utf-8")
    _until(lambda: any(fact in passage["text"] for passage in place.query(question)), began_s)
    took_s = time.monotonic() - began_s
    place.sync()
    return took_s, place.generated() - before


def _rename(place: Place) -> tuple[float, int]:
    """Seconds until no answer names the old folder, and the passages generated."""
    before = place.generated()
    began_s = time.monotonic()
    (place.notes / "passages").rename(place.notes / "renamed")
    question = "Who is the custodian of ledger 0, Ximena Quolbridge0?"
    _until(
        lambda: all(path.startswith("renamed/") for path in place.documents(question, k=20)),
        began_s,
    )
    took_s = time.monotonic() - began_s
    place.sync()
    return took_s, place.generated() - before


def _until(condition: Callable[[], bool], began_s: float) -> None:
    while not condition():
        if time.monotonic() - began_s > _DEADLINE_S:
            raise SystemExit(f"not answered within {_DEADLINE_S} s")
        time.sleep(_POLL_S)


if __name__ == "__main__":
    main()
