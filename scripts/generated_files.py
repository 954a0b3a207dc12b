"""Writes generated files, or compares them with the files in the repository."""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_or_check(texts: Mapping[Path, str]) -> int:
    """Write each text to its file; with --check, print the files that differ. Returns the exit
    status."""
    if "--check" not in sys.argv:
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
        return 0
    old = [file for file, text in texts.items() if file.read_text(encoding="utf-8") != text]
    for file in old:
        script = Path(sys.argv[0]).name
        print(f"{file.relative_to(ROOT)} is out of date; run scripts/{script}", file=sys.stderr)
    return 1 if old else 0
