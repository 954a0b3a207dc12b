"""The commands of docs/quickstart.md do what the page says, on a copy of the example notes."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Place, new_place

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXPECTED = {
    "hopsyncd init": "config.toml",
    "hopsyncd ask": "IBM built it at Endicott",
    "--explain": "Harvard Mark",
    "hopsyncd show": "one of the first programmers",
    "hopsyncd diff": "Its cards were punched in Endicott.",
    "hopsyncd status": "12 documents",
}

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place() as made:
        shutil.copytree(ROOT / "examples", made.home / "examples")
        yield made


def run(place: Place, block: str) -> str:
    """The output of a block. Fails if one of its commands does."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "HOPSYNCD_HOME": str(place.home),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    ran = subprocess.run(
        ["sh", "-ec", block],
        cwd=place.home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 0, f"{block}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_each_block_of_the_quickstart_works_in_order(place: Place) -> None:
    assert len(BLOCKS) > 5
    shown = ""
    for number, block in enumerate(BLOCKS):
        shown = run(place, block)
        for command, expected in EXPECTED.items():
            if command in block:
                assert expected in " ".join(shown.split()), (block, shown)
        if number == 0:
            place.start()
