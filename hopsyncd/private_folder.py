"""Folders that nobody else can put anything into."""

import os
import shutil
import tempfile
from pathlib import Path

from hopsyncd.errors import ConfigError


def own_folder(folder: Path) -> None:
    """Make the data folder for its owner alone. Raises ConfigError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Cannot make the data folder {folder}",
            str(error.strerror).lower(),
            "Set daemon.data_dir, or HOPSYNCD_HOME, to a folder that you may write to",
        ) from error


def use_own_temporary(folder: Path) -> None:
    """Have this process, and what it starts, keep temporary files where nobody else can put any.

    Whatever a library trusts there, it has made itself; and a full, read-only or missing folder of
    the system's stops nothing. What an earlier process left in it is deleted.
    """
    shutil.rmtree(folder, ignore_errors=True)
    own_folder(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
