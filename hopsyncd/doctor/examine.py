"""All checks, in the order in which they are best read."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hopsyncd.config.configuration import config_path, load_config
from hopsyncd.doctor import Diagnosis, machine, reachable
from hopsyncd.doctor import machine as installed
from hopsyncd.doctor import reachable as serving
from hopsyncd.errors import ConfigError

Check = Callable[[], Iterator[Diagnosis]]


def examine(config_file: Path | None) -> Iterator[Diagnosis]:
    """With a daemon or without one. Nothing is changed."""
    yield from _seen("python", machine.python)
    yield from _seen("descriptors", machine.descriptors)
    yield from _seen("clock", machine.clock)
    yield from _seen("sqlite", machine.libraries)
    yield from _seen("readers", machine.readers)
    try:
        config = load_config(config_file)
    except ConfigError as error:
        yield Diagnosis("configuration", "fail", f"{error.what}: {error.why}", error.hint)
        return
    file = config_path(config_file)
    yield from _seen("configuration", partial(installed.configuration, file, config))
    yield from _seen("data folder", partial(installed.data_folder, config))
    yield from _seen("disk", partial(machine.disk, config))
    yield from _seen("database", partial(installed.database, config))
    yield from _seen("models", partial(installed.models, config))
    yield from _seen("daemon", partial(serving.served, config))
    yield from _seen("sources", partial(reachable.sources, config))
    yield from _seen("watches", partial(machine.watches, config))
    yield from _seen("llm", partial(reachable.endpoint, config))


def _seen(name: str, check: Check) -> Iterator[Diagnosis]:
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - told as a finding; the other checks go on
        why = f"it could not be checked: {type(error).__name__}: {error}"
        yield Diagnosis(name, "fail", why, "Report this, with what was printed")
