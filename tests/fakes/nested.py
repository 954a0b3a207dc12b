"""Folders nested so deep that no path names the innermost one."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def nest(
    root: Path,
    depth: int,
    files: Mapping[str, bytes],
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Make `depth` folders called "d", one in the other, with `files` in the innermost.

    `beside` are files in each of the folders above.
    """
    folder = os.open(root, _FOLDER)
    for level in range(depth + 1):
        for name, data in (files if level == depth else beside or {}).items():
            handle = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
            os.write(handle, data)
            os.close(handle)
        if level < depth:
            os.mkdir("d", dir_fd=folder)
            below = os.open("d", _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
    os.close(folder)


def remove_nested(root: Path) -> None:
    """Remove a tree of any depth, which `shutil.rmtree` cannot."""
    subprocess.run(["rm", "-rf", os.fspath(root)], check=True)
