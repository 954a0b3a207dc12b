"""Generate docs/benchmarks.md from the results in benchmarks/results.

python scripts/benchmarks_doc.py            # write the page
python scripts/benchmarks_doc.py --check    # fail if the page is not what the results say
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
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

Every table on this page comes from a file in `benchmarks/results`, which records the command, the
commit, the date and the machine. Each command can be repeated. Unless a table says otherwise, the
models are the default ones and no LLM is asked.

Recall does not depend on the machine, except for a question or two between kinds of processors.
Times do: most runs shared two cores with other work, so trust ratios more than milliseconds.

`hop` is the default search. `bm25`, `dense` and `hybrid` are plain searches over the same passages.
"""
_CLOSING = """\
## More results

These tables are in `benchmarks/results` only.

"""


def main() -> int:
    page = page_of(results(RESULTS))
    if "--check" not in sys.argv:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if page == PAGE.read_text(encoding="utf-8"):
        return 0
    print("docs/benchmarks.md is out of date; run scripts/benchmarks_doc", file=sys.stderr)
    return 1


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
    for name, result in found.items():
        if not result["shown"]:
            continue
        if result["section"] != section:
            section = result["section"]
            parts.append(f"## {section}\n")
        parts.append("\n".join(_result(name, result)))
    hidden = [(name, result) for name, result in found.items() if not result["shown"]]
    rows = [f"- `{name}.json`: {result['title']}, {result['date']}" for name, result in hidden]
    return "\n".join([*parts, _CLOSING + "\n".join(rows) + "\n"])


def _result(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {result['title']}\n"
    if result["text"]:
        yield f"{result['text']}\n"
    yield from _table(result["columns"], result["rows"])
    yield ""
    if result["notes"]:
        yield f"{result['notes']}\n"
    commit = " ".join([result["commit"], result["commit_note"]]).strip()
    measured = f"commit {commit}, {result['date']}, {result['machine']}"
    yield f"`{result['command']}` (`{name}.json`): {measured}.\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """A Markdown table in which columns of numbers are aligned right."""
    yield "| " + " | ".join(columns) + " |"
    numeric = [
        any(isinstance(row[place], int | float) for row in rows) for place in range(len(columns))
    ]
    yield "|" + "|".join("--:" if right else "--" for right in numeric) + "|"
    for row in rows:
        yield "| " + " | ".join(_cell(value) for value in row) + " |"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
