"""The client's calls and docs/reference/http-api.md are what the endpoints declare."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_calls_and_the_reference_are_made_from_the_endpoints_as_they_are() -> None:
    ran = subprocess.run(
        [sys.executable, "scripts/api_docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 0, f"run `python scripts/api_docs.py`: {ran.stderr}"
