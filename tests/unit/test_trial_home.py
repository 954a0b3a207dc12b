"""The temporary folder of `hopsyncd try`: its socket must fit into the address of a socket."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from hopsyncd.cli.trial import make_home


def test_a_long_temporary_folder_is_passed_over_for_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    home = make_home()
    try:
        assert not home.is_relative_to(long) and [*long.iterdir()] == []
        assert home.stat().st_mode & 0o777 == 0o700
        (home / "run").mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(home / "run/hopsyncd.sock"))
    finally:
        shutil.rmtree(home)
