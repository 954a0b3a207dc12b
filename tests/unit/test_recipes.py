"""The recipes of CONTRIBUTING.md work as they are written: they are applied to a copy of the code,
and what they add is used there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED = ("hopsyncd", "store", "connectors", "scripts", "tests/fakes")
_BLOCK = r":\n\n```(?:python|text)\n(.*?)```\n"
_NEW = re.compile(r"New file `(\S+)`" + _BLOCK, re.DOTALL)
_ADDED = re.compile(r"In `(\S+)`, (after|before) `([^\n]+)`" + _BLOCK, re.DOTALL)
_REPLACED = re.compile(r"In `(\S+)`, replace `([^\n`]+)` with `([^\n`]+)`")
USE_FORMAT = """
from connectors.media_type import is_document_name, guess_media_type
from hopsyncd.formats.readers import extract
from hopsyncd.formats.sandbox.samples import SAMPLES

file = b"0:01.0,0:02.0\\nA bronze\\ndoor.\\n\\n0:03.0,0:04.0\\nIt opens."
assert is_document_name("film.sbv")
blocks = extract(file, guess_media_type("film.sbv"))
assert [(one.text, one.first_line, one.last_line) for one in blocks] == [
    ("A bronze\\ndoor.", 1, 3), ("It opens.", 5, 6)
], blocks
(sample,) = extract(SAMPLES[guess_media_type("film.sbv")](), guess_media_type("film.sbv"))
assert sample.text == "Sample"
"""
USE_STRATEGY = """
import sys
from pathlib import Path
from hopsyncd.config.values import Search
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk import WalkSettings
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

texts = ["Tove repairs clocks.", "Ada paints doors.", "Oslo has a harbour.", "Clocks in Oslo."]
files = {f"{number}.md": text.encode() for number, text in enumerate(texts)}
stack = Stack(Path(sys.argv[1]) / "s.db", MemoryConnector(files))
stack.sync()
engine = Engine(Path(sys.argv[1]) / "s.db", FakeEncoder(), WalkSettings())
engine.publish(stack.writer.make_snapshot(stack.head))

def found(strategy):
    return [one.passage for one in engine.query("Who repairs clocks?", 4, Search(strategy)).ranked]

words, vectors = found("bm25"), found("dense")
assert found("agreement") == [one for one in words if one in vectors] != [], (words, vectors)
"""
USE_ENDPOINT = """
import subprocess, sys
from hopsyncd.api.app import ENDPOINTS
from hopsyncd.api.endpoints import build_openapi_document

(made,) = [one for one in ENDPOINTS if one.path == "/v1/count"]
assert made.right == "read" and made.summary == "The number of documents that the caller may see"
assert "/v1/count" in build_openapi_document(ENDPOINTS)["paths"]
subprocess.run([sys.executable, "scripts/api_docs.py"], check=True)
made = [sys.executable, "-c", "from hopsyncd.client.calls import count; print(count().path)"]
assert subprocess.check_output(made, text=True) == "/v1/count\\n"
"""


class Edit(NamedTuple):
    """One step of a recipe: `text` is a whole file if `where` is `new`, or goes after or before
    `line`, or takes the place of `line` within its line."""

    file: str
    where: str
    line: str
    text: str


EDITS = [
    *(Edit(file, "new", "", text) for file, text in _NEW.findall(PAGE)),
    *(Edit(*found) for found in _ADDED.findall(PAGE)),
    *(Edit(file, "replace", old, new) for file, old, new in _REPLACED.findall(PAGE)),
]


def apply(edit: Edit, root: Path) -> None:
    """Apply a step to the code below `root`. Fails if its line is not there exactly once."""
    file = root / edit.file
    if edit.where == "new":
        assert not file.exists(), f"{edit.file} exists already"
        file.write_text(edit.text, encoding="utf-8")
        return
    text = file.read_text(encoding="utf-8")
    if edit.where == "replace":
        assert text.count(edit.line) == 1, f"{edit.file} has not one {edit.line!r}"
        file.write_text(text.replace(edit.line, edit.text), encoding="utf-8")
        return
    lines = text.splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if line.strip() == edit.line]
    assert len(places) == 1, f"{edit.file} has not one line {edit.line!r}"
    lines.insert(places[0] + (edit.where == "after"), edit.text)
    file.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code with all recipes applied to it."""
    root = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in COPIED:
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("images"))
    for file in ("tests/__init__.py", "pyproject.toml", "config.toml"):
        shutil.copy(ROOT / file, root / file)
    for edit in EDITS:
        apply(edit, root)
    return root


@pytest.mark.parametrize(
    "use", [USE_FORMAT, USE_STRATEGY, USE_ENDPOINT], ids=["format", "strategy", "endpoint"]
)
def test_the_result_of_a_recipe_works(copy: Path, tmp_path: Path, use: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", use, str(tmp_path)],
        cwd=copy,
        env={"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr


def test_each_recipe_has_steps_that_are_applied() -> None:
    assert {edit.file for edit in EDITS} >= {
        "hopsyncd/formats/readers.py",
        "hopsyncd/retrieve/strategies/agreement.py",
        "hopsyncd/api/status_service.py",
    }
    blocks = PAGE[PAGE.index("### A format") :].count("```") // 2
    assert len(EDITS) == blocks + len(_REPLACED.findall(PAGE))


def test_each_file_that_is_named_exists() -> None:
    named = set(
        re.findall(r"`((?:hopsyncd|connectors|store|tests|scripts|docs)/[a-z_./*]+)`", PAGE)
    )
    assert len(named) > 8
    named -= {edit.file for edit in EDITS if edit.where == "new"}
    assert [path for path in sorted(named) if not list(ROOT.glob(path.rstrip("/")))] == []
