"""The client's calls and docs/reference/http-api.md are what the endpoints declare."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_calls_and_the_api_reference_match_the_endpoints() -> None:
    ran = subprocess.run(
        [sys.executable, "scripts/api_docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 0, f"run `python scripts/api_docs.py`: {ran.stderr}"
