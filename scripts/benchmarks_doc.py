"""Generate docs/benchmarks.md from the results in benchmarks/results.

python scripts/benchmarks_doc.py            # write the page
python scripts/benchmarks_doc.py --check    # fail if the page is out of date
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.generated_files import ROOT, write_or_check

RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/benchmarks.md"
FIELDS = {
    "title": str,
    "section": str,
    "order": int,
    "shown": bool,
    "command": str,
    "commit": str,
    "commit_note": str,
    "date": str,
    "machine": str,
    "text": str,
    "columns": list,
    "notes": str,
    "rows": list,
}

_INTRODUCTION = """\
# Benchmarks

Every table on this page comes from a file in `benchmarks/results`. The [last table](#origins) names
the file, the command that repeats the measurement, the commit, the date and the machine. Unless a
table says otherwise, the default models are used, no LLM is called, and the questions were used
during development, so expect lower figures on other questions.

Brackets contain 95 % [intervals](reference/evaluation.md#measures).

Recall varies by at most two questions between processor types. Times depend on the machine: most
runs shared two cores with other work, so compare ratios rather than milliseconds.

`hop` is the default search. `bm25`, `dense` and `hybrid` are plain searches over the same passages.
"""
_ORIGINS = """\
## Origins

A `~` before a commit means that this or a slightly older commit was measured. Rows that name no
machine were measured on this one: {machine}.
"""
_CLOSING = """\
The other files in `benchmarks/results` have no table here. `tried.json` lists ideas that did not
help.
"""


def main() -> int:
    return write_or_check({PAGE: page_of(results(RESULTS))})


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """All results by file name without suffix, in the order of the page."""
    read = {file.stem: _read(file) for file in folder.glob("*.json")}
    return dict(sorted(read.items(), key=lambda item: (item[1]["order"], item[0])))


def _read(file: Path) -> dict[str, Any]:
    """One result. Raises ValueError if a field is missing, unknown or of another type."""
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    wrong = [name for name, kind in FIELDS.items() if not isinstance(result.get(name), kind)]
    if wrong or result.keys() - FIELDS.keys():
        raise ValueError(f"{file}: fields {wrong or sorted(result.keys() - FIELDS.keys())}")
    if any(len(row) != len(result["columns"]) for row in result["rows"]):
        raise ValueError(f"{file}: a row has not as many cells as there are columns")
    return result


def page_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    section = ""
    for result in found.values():
        if not result["shown"]:
            continue
        if result["section"] != section:
            section = result["section"]
            parts.append(f"## {section}\n")
        parts.append("\n".join(_result(result)))
    parts.append("\n".join(_origins(found)))
    return "\n".join([*parts, _CLOSING])


def _result(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {result['title']}\n"
    if result["text"]:
        yield f"{result['text']}\n"
    yield from _table(result["columns"], result["rows"])
    yield ""
    if result["notes"]:
        yield f"{result['notes']}\n"


def _origins(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The section that says how to repeat each table on the page."""
    usual = Counter(result["machine"] for result in found.values()).most_common(1)[0][0]
    yield _ORIGINS.format(machine=usual)
    rows = [
        [f"`{name}`", f"`{result['command']}`", _commit(result), result["date"]]
        for name, result in found.items()
        if result["shown"]
    ]
    shown = (result for result in found.values() if result["shown"])
    for row, result in zip(rows, shown, strict=True):
        if result["machine"] != usual:
            row[-1] += f", {result['machine']}"
    yield from _table(["file", "command", "commit", "date"], rows)
    yield ""


def _commit(result: Mapping[str, Any]) -> str:
    if result["commit_note"] == "or slightly older":
        return f"~{result['commit']}"
    return f"{result['commit']} {result['commit_note']}".strip()


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """A Markdown table in which columns of numbers are aligned right."""
    yield f"|{'|'.join(columns)}|"
    numeric = [
        any(isinstance(row[place], int | float | list) for row in rows)
        for place in range(len(columns))
    ]
    yield "|" + "|".join("--:" if right else "--" for right in numeric) + "|"
    for row in rows:
        yield f"|{'|'.join(_cell(value) for value in row)}|"


def _cell(value: object) -> str:
    if isinstance(value, list):  # a share with the ends of its interval
        percent, low, high = value
        return f"{percent} ({low:.0f}\u2013{high:.0f})"
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
