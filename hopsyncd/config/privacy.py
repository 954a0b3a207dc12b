"""Hides secrets of the configuration, and protects files that only the owner may write."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel

from hopsyncd.config.configuration import Config, find_former_keys, load_config
from hopsyncd.errors import ConfigError
from hopsyncd.logs import configure_logs

log = structlog.get_logger(__name__)

_SECRET_KEY = re.compile(r"(?i)key|token|secret|pass|credential|connection_string|sas")
_VARIABLE_KEY = "_env"  # suffix of the keys that name an environment variable


def collect_secrets(config: Config) -> frozenset[str]:
    """Collect all keys, tokens and passwords in the configuration and the environment.

    Logs hide them.
    """
    of_server = os.environ.get("PGPASSWORD", "") if config.store.url else ""
    address = config.models.encoder_address
    of_encoder = os.environ.get(address.key_env, "").strip() if address else ""
    return frozenset(
        secret for secret in (*_collect_secrets(config), of_server, of_encoder) if secret
    )


def _collect_secrets(model: BaseModel) -> Iterator[str]:
    fields = type(model).model_fields
    for key, value in model:
        if key.endswith(_VARIABLE_KEY) and isinstance(value, str):
            yield os.environ.get(value, "").strip()
        elif isinstance(value, BaseModel):
            yield from _collect_secrets(value)
        elif isinstance(value, str) and key in fields:
            yield "" if fields[key].repr else value
        else:
            yield from _find_secrets_below(key, value)


def _find_secrets_below(key: str, value: Any) -> Iterator[str]:
    """Yield the secrets in the settings of drivers and packages, recognised by their keys."""
    if isinstance(value, BaseModel):
        yield from _collect_secrets(value)
    elif isinstance(value, dict):
        for inner, below in value.items():
            yield from _find_secrets_below(str(inner), below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _find_secrets_below(key, below)
    elif isinstance(value, str) and _SECRET_KEY.search(key):
        yield value


def describe_other_writers(path: Path) -> str | None:
    """Return who else may write to a file or folder: "others", "its group", or None.

    Raises OSError.
    """
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        return "others"
    return "its group" if mode & stat.S_IWGRP else None


def check_config_file(file: Path) -> None:
    """Refuse a world-writable configuration, because it names programs to run and files to read.

    Logs a warning if the file's group may write to the file, which is the default on some systems,
    or if a key has its former name. Raises ConfigError.
    """
    try:
        writers = describe_other_writers(file)
    except OSError:
        return  # missing or unreadable: the next read reports it
    if writers == "others":
        raise ConfigError(
            f"Cannot use the configuration {file}",
            f"the mode of the file is {_format_mode(file)}, so other users can write to it",
            f"Check the content of the file. Run: chmod 600 {file}",
        )
    if writers:
        log.warning(
            "the group of the configuration file can change the file",
            file=str(file),
            why=f"the mode is {_format_mode(file)}",
            hint=f"Run: chmod 600 {file}",
        )
    for former, present in find_former_keys(file).items():
        log.warning(
            "a key of the configuration has a new name",
            file=str(file),
            why=f"the next version does not accept {former}",
            hint=f"Write {present}",
        )


def _format_mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def create_own_folder(folder: Path) -> None:
    """Create the data folder, accessible only to its owner. Raises ConfigError.

    A folder that other users can write to is refused, because they may have replaced files in it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Cannot create the data folder {folder}",
            str(error.strerror).lower(),
            "Set daemon.data_dir or HOPSYNCD_HOME to a folder that you may write to",
        ) from error
    writers = describe_other_writers(folder)
    if writers:
        raise ConfigError(
            f"Cannot use the data folder {folder}",
            f"the mode of the folder is {_format_mode(folder)}, so {writers} can write to it",
            f"Check that nobody has changed files in the folder. Run: chmod 700 {folder}",
        )


def use_own_temporary(folder: Path) -> None:
    """Keep the temporary files of this process and its children in a private folder.

    So other users cannot place files in it, and a full, read-only or missing system folder does not
    matter. Deletes files that an earlier process left in the folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    create_own_folder(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def load_checked(file: Path) -> Config:
    """Load the configuration. Raises ConfigError if the file is invalid, or if other users may
    write to it."""
    check_config_file(file)
    return load_config(file)


def configure_daemon_logs(config: Config) -> None:
    """Configure logging, with the configuration's secrets redacted."""
    daemon = config.daemon
    configure_logs(daemon.log_level, daemon.log_format, collect_secrets(config), daemon.log_file)
