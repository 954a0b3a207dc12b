"""How many of fifty random edits of real documents `log` and `diff` describe correctly.

python benchmarks/history.py --print

There are ten edits of each kind: a changed word, a deleted paragraph, an added paragraph, a renamed
file, a deleted file. `--print` shows the output. The daemon has small models, because the output
does not depend on models.
"""

import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from click.testing import CliRunner
from common import arguments, real_documents, table

from hopsyncd.cli.main import cli
from tests.e2e.daemon import SMALL, new_place, source

_EACH = 10
_PROSE = re.compile(r"(?<=\n\n)[A-Z][a-z]+(?: [a-z]+,?){5,}[^\n`*\[\]<>|_]*\.(?=\n\n)")
_NEW = "harbourmaster"

Edit = Callable[[Path, random.Random], tuple[str, str]]
"""Edits a file; returns what `log` and what `diff` must say."""


def main() -> None:
    given = arguments(__doc__ or "", ("--print", {"action": "store_true", "dest": "shown"}))
    data = real_documents(given.data)
    draw = random.Random(1)
    with new_place(SMALL) as place:
        files = [one for kind in ("md", "rst", "txt") for one in data.rglob(f"*.{kind}")]
        for file in files:
            copied = place.notes / file.relative_to(data)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)
        place.configure("[watch]\nenabled = false\n" + source("docs", place.notes))
        place.start()
        before = place.sync()["version"]
        run = partial(CliRunner().invoke, cli, env={"HOPSYNCD_HOME": str(place.home)})
        rows = []
        for kind, edit in _EDITS.items():
            logged = told = 0
            for _ in range(_EACH):
                about, change = edit(place.notes, draw)
                now = place.sync()["version"]
                log = run(["log", "-n", "1"]).output
                diff = run(["diff", str(before)]).output
                logged, told = logged + (about in log), told + (change in diff)
                if given.shown:
                    print(f"##### {kind}\n{log}{diff}")
                before = now
            rows.append([kind, logged, told])
        table([f"{_EACH} edits each", "log says which", "diff says what"], rows)


def _drawn(notes: Path, draw: random.Random) -> tuple[Path, str, re.Match[str]]:
    """Draw a document. Returns its path, its text and one of its paragraphs."""
    files = sorted(one for one in notes.rglob("*.*") if one.is_file())
    while True:
        file = draw.choice(files)
        text = file.read_text("utf-8", "replace")
        if found := list(_PROSE.finditer(text)):
            return file, text, draw.choice(found)


def _word(notes: Path, draw: random.Random) -> tuple[str, str]:
    file, text, found = _drawn(notes, draw)
    first, rest = found[0].split(" ", 1)
    file.write_text(text[: found.start()] + f"{first} {_NEW} {rest}" + text[found.end() :])
    return f"changed {file.relative_to(notes)}", f"+{first} {_NEW} {rest.split(' ')[0]}"


def _gone(notes: Path, draw: random.Random) -> tuple[str, str]:
    file, text, found = _drawn(notes, draw)
    file.write_text(text[: found.start()] + text[found.end() :])
    return f"changed {file.relative_to(notes)}", f"-{found[0][:20]}"


def _added(notes: Path, draw: random.Random) -> tuple[str, str]:
    file, text, found = _drawn(notes, draw)
    said = f"The {_NEW} closes gate {draw.randrange(1000)} at night."
    file.write_text(text[: found.end()] + f"\n\n{said}" + text[found.end() :])
    return f"changed {file.relative_to(notes)}", f"+{said}"


def _renamed(notes: Path, draw: random.Random) -> tuple[str, str]:
    file, _, _ = _drawn(notes, draw)
    new = file.with_name(f"renamed-{file.name}")
    file.rename(new)
    told = f"{file.relative_to(notes)} -> {new.relative_to(notes)}"
    return f"renamed {told}", f"> docs: {told}"


def _removed(notes: Path, draw: random.Random) -> tuple[str, str]:
    file, _, _ = _drawn(notes, draw)
    file.unlink()
    return f"removed {file.relative_to(notes)}", f"- docs: {file.relative_to(notes)}"


_EDITS: dict[str, Edit] = {
    "a word": _word,
    "a paragraph goes": _gone,
    "a paragraph is added": _added,
    "a file is renamed": _renamed,
    "a file goes": _removed,
}


if __name__ == "__main__":
    main()
