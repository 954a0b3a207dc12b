"""Every reader on machines whose temporary folders are as they should not be."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hopsyncd.config.privacy import use_own_temporary
from tests.e2e.daemon import ROOT
from tests.fakes.read_all import plant, read_all

_AS_ROOT = ("unshare", "--mount")
_AS_USER = ("unshare", "--user", "--map-root-user", "--mount")
_HIDE = 'for at in /tmp /var/tmp; do mount -t tmpfs -o "$0" none $at || exit 77; done; exec "$@"'
# Whoever this is has no more rights than the files give.
_UNPRIVILEGED = (
    *("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
    "--securebits=+noroot,+noroot_locked",
)


def on_a_machine(mounted: str, *, user: bool, planted: bool = False) -> dict[str, str]:
    """What comes of each sample where the shared temporary folders are mounted like that."""
    if not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        pytest.skip("util-linux is missing")
    if any(str(Path(place).resolve()).startswith("/tmp/") for place in (ROOT, sys.prefix)):
        pytest.skip("hopsyncd itself is below /tmp")
    ran = subprocess.run(
        [
            *(_AS_ROOT if os.geteuid() == 0 else _AS_USER),
            *("sh", "-c", _HIDE, mounted),
            *(_UNPRIVILEGED if user else ()),
            *(sys.executable, "-m", "tests.fakes.read_all", *(["plant"] if planted else [])),
        ],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "TMPDIR"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if ran.returncode == 77 or "unshare failed" in ran.stderr:
        pytest.skip(f"no mount namespace of its own: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    came: dict[str, str] = json.loads(ran.stdout)
    return came


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
@pytest.mark.parametrize("mounted", ["mode=1777", "mode=1777,noexec", "mode=0755,ro"])
def test_every_document_is_read_whatever_the_temporary_folder_is(mounted: str, user: bool) -> None:
    assert not any(on_a_machine(mounted, user=user).values())


def test_a_library_that_somebody_left_in_the_temporary_folder_is_never_loaded() -> None:
    assert not any(on_a_machine("mode=1777", user=False, planted=True).values())


@pytest.mark.parametrize("planted", [False, True], ids=["empty", "planted"])
@pytest.mark.parametrize("mode", [0o700, 0o500])
def test_every_document_is_read_whatever_tmpdir_contains(
    mode: int, planted: bool, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    if planted:
        plant(own)
    before = sorted(own.rglob("*"))
    own.chmod(mode)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fakes.read_all"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(own)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    own.chmod(0o700)
    assert ran.returncode == 0, ran.stderr
    assert not any(json.loads(ran.stdout).values())
    assert sorted(own.rglob("*")) == before


def test_a_worker_maps_only_files_of_python_and_the_system() -> None:
    assert not any(read_all().values())


def test_the_daemons_temporary_folder_is_its_own_and_empty(tmp_path: Path) -> None:
    own = tmp_path / "tmp"
    (own / "torchinductor_root").mkdir(parents=True)
    own.chmod(0o755)
    says = "import tempfile; print(tempfile.gettempdir())"
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    try:
        use_own_temporary(own)
        assert (tempfile.gettempdir(), own.stat().st_mode & 0o777) == (str(own), 0o700)
        assert not list(own.iterdir())
        ran = subprocess.run(
            [sys.executable, "-c", says], capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip() == str(own)
    finally:
        tempfile.tempdir = before[0]
        os.environ.pop("TMPDIR")
        os.environ.update({"TMPDIR": before[1]} if before[1] else {})
