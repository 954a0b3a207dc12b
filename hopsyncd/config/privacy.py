"""The secrets that a configuration holds or names, and folders that nobody else can write to."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hopsyncd.config.configuration import Config
from hopsyncd.errors import ConfigError

_SECRET_KEY = re.compile(r"(?i)key|token|secret|pass|credential|connection_string|sas")
_VARIABLE_KEY = "_env"  # ends the keys that name an environment variable


def secrets_of(config: Config) -> frozenset[str]:
    """Every key, token and password that the daemon can come to know, for no log to show."""
    return frozenset(found for found in _secrets(config) if found)


def _secrets(model: BaseModel) -> Iterator[str]:
    fields = type(model).model_fields
    for key, value in model:
        if key.endswith(_VARIABLE_KEY) and isinstance(value, str):
            yield os.environ.get(value, "").strip()
        elif isinstance(value, BaseModel):
            yield from _secrets(value)
        elif isinstance(value, str) and key in fields:
            yield "" if fields[key].repr else value
        else:
            yield from _below(key, value)


def _below(key: str, value: Any) -> Iterator[str]:
    """Those in the settings of drivers and packages, whose names alone tell what they are."""
    if isinstance(value, BaseModel):
        yield from _secrets(value)
    elif isinstance(value, dict):
        for inner, below in value.items():
            yield from _below(str(inner), below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _below(key, below)
    elif isinstance(value, str) and _SECRET_KEY.search(key):
        yield value


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
