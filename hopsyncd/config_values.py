"""What a line of the configuration may hold: paths, patterns, models, times."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from connectors.ignore import NAMED, Patterns
from hopsyncd.schedule import at, zone_of

GC_AT, FULL_SCAN_AT = "30 3 * * *", "15 4 * * *"


def to_path(value: object, info: ValidationInfo) -> Path:
    """`~` expanded; relative to the configuration's folder, which the context names."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("a path is wanted, as text in quotes")
    base: Path = (info.context or {}).get("base", Path.cwd())
    try:
        path = base / Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(f"the home folder in it is unknown ({error})") from error
    return Path(os.path.normpath(path))


def is_usable_folder(path: Path) -> Path:
    """A folder that is missing passes: its drive may not be mounted, so its source pauses."""
    try:
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is not a folder")
        readable = not path.exists() or os.access(path, os.R_OK | os.X_OK)
    except OSError as error:
        raise ValueError(f"{path} cannot be used: {error.strerror}") from error
    if not readable:
        raise ValueError(f"{path} may not be read by this user")
    return path


def is_model(value: str, info: ValidationInfo) -> str:
    """A name, or the absolute path of a model's folder, which must exist."""
    if not value.startswith(("/", "~", "./", "../")):
        return value
    path = to_path(value, info)
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}")
    return str(path)


def are_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    Patterns([pattern for pattern in patterns if pattern not in NAMED])
    return patterns


def is_cron(expression: str) -> str:
    """A cron expression, or nothing. To judge one that is not ours loads a library."""
    if expression not in ("", GC_AT, FULL_SCAN_AT):
        at(expression)
    return expression


def is_time_zone(name: str) -> str:
    """The name of a time zone, or nothing."""
    if name:
        zone_of(name)
    return name


CRON_HINT = 'Write it like "30 3 * * mon-fri": minute, hour, day, month, day of the week.'
ConfigPath = Annotated[Path, BeforeValidator(to_path)]
PatternList = Annotated[tuple[str, ...], Field(strict=False), AfterValidator(are_patterns)]
ModelName = Annotated[str, Field(min_length=1), AfterValidator(is_model)]
CronText = Annotated[str, AfterValidator(is_cron)]
Seconds = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
