"""Keeping secrets: those in the configuration, and folders that nobody else can write to."""

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
_VARIABLE_KEY = "_env"  # suffix of the keys that name an environment variable


def secrets_of(config: Config) -> frozenset[str]:
    """Every key, token and password that the daemon can know, so that no log shows them."""
    of_server = os.environ.get("PGPASSWORD", "") if config.store.url else ""
    return frozenset(found for found in (*_secrets(config), of_server) if found)


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
    """Secrets in the settings of drivers and packages, recognised by their names alone."""
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
    """Create the data folder, accessible to its owner only. Raises ConfigError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Cannot create the data folder {folder}",
            str(error.strerror).lower(),
            "Set daemon.data_dir or HOPSYNCD_HOME to a folder that you may write to",
        ) from error


def use_own_temporary(folder: Path) -> None:
    """Keep the temporary files of this process and its children where nobody else can write.

    Libraries then find only their own files there, and a full, read-only or missing system folder
    stops nothing. Deletes what an earlier process left in the folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    own_folder(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
