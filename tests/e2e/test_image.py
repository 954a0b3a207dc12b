"""The image of the Dockerfile: from a build to a first answer, without rights or writable notes."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "hopsyncd-test"


def _docker(*arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )


@pytest.mark.nightly
def test_a_container_answers_from_a_read_only_notes_folder(tmp_path: Path) -> None:
    if shutil.which("docker") is None or _docker("info").returncode:
        pytest.skip("no docker daemon runs here")
    built = _docker("build", "-q", "-t", NAME, str(ROOT), timeout_s=1800)
    if built.returncode and "python:3.12-slim" in built.stderr:
        pytest.skip("the base image cannot be fetched here")
    assert built.returncode == 0, built.stderr
    (tmp_path / "ada.md").write_text("# Ada\n\nAda Byron was born in London.\n")
    mounts = ["-v", f"{tmp_path}:/notes:ro", "-v", f"{NAME}:/data"]
    try:
        made = _docker("run", "--rm", *mounts, NAME, "init", "--folder", "/notes")
        assert made.returncode == 0, made.stderr
        assert _docker("run", "-d", "--name", NAME, *mounts, NAME).returncode == 0
        assert _docker("exec", NAME, "id", "-u").stdout.strip() == "1000"
        end_s = time.monotonic() + 180
        while "Byron" not in (found := _docker("exec", NAME, "hopsyncd", "query", "Ada")).stdout:
            assert time.monotonic() < end_s, found.stderr
            time.sleep(1)
    finally:
        _docker("rm", "-f", NAME)
        _docker("volume", "rm", NAME)
