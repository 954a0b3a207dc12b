"""The commands in the pages do what the pages say, on a copy of the example notes.

Blocks that cannot run are marked in the page: `<!-- not run: REASON -->`. The samples of the HTTP
API and the Python client run in test_api_docs.py, the sample connector in tests/contract.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Place, new_place
from tests.samples import Sample, pages, samples_of

ROOT = Path(__file__).parents[2]
RUN_ELSEWHERE = ("reference/client.md", "reference/http-api.md", "reference/connectors.md")
QUICKSTART = "quickstart.md"
EXPECTED = {
    "hopsyncd init": "config.toml",
    "hopsyncd ask": "IBM built it at Endicott",
    "--explain": "Harvard Mark",
    "hopsyncd show": "one of the first programmers",
    "hopsyncd diff": "Its cards were punched in Endicott.",
    "hopsyncd status": "12 documents",
}


def runnable(page: str) -> list[Sample]:
    """The blocks of a page that run here, in order."""
    return [
        sample
        for sample in samples_of(page)
        if sample.language in ("sh", "python") and sample.reason is None
    ]


PAGES = [page for page in pages() if page not in (QUICKSTART, *RUN_ELSEWHERE) and runnable(page)]

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def home() -> Iterator[Place]:
    with new_place() as made:
        shutil.copytree(ROOT / "examples", made.home / "examples")
        yield made


@pytest.fixture(scope="module")
def quickstart(home: Place) -> dict[str, str]:
    """What each block of the quickstart prints; afterwards its daemon runs."""
    blocks = runnable(QUICKSTART)
    printed = {blocks[0].text: run(home, blocks[0])}
    home.start()
    return printed | {block.text: run(home, block) for block in blocks[1:]}


def run(place: Place, sample: Sample) -> str:
    """The output of a block. Fails if one of its commands does."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "HOPSYNCD_HOME": str(place.home),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    program = ["sh", "-ec"] if sample.language == "sh" else [sys.executable, "-c"]
    ran = subprocess.run(
        [*program, sample.text],
        cwd=place.home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 0, f"{sample}\n{sample.text}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_each_block_of_the_quickstart_does_what_the_page_says(quickstart: dict[str, str]) -> None:
    assert len(quickstart) > 5
    for command, expected in EXPECTED.items():
        printed = [" ".join(out.split()) for block, out in quickstart.items() if command in block]
        assert printed and all(expected in one for one in printed), (command, printed)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("quickstart")
def test_each_block_of_a_page_runs(home: Place, page: str) -> None:
    for sample in runnable(page):
        run(home, sample)
