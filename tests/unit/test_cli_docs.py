"""docs/reference/cli.md is what the commands say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_is_made_from_the_commands_as_they_are() -> None:
    made = subprocess.run(
        [sys.executable, "scripts/cli_docs.py", "--print"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    kept = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert kept == made.stdout, "run `python scripts/cli_docs.py`"
    for command in ("query", "service install", "doctor", "completion"):
        assert f"## hopsyncd {command}\n" in kept
