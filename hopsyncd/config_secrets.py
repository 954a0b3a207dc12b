"""The secrets that a configuration holds or names."""

import os
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from hopsyncd.config import Config

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
