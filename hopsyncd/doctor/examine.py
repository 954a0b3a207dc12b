"""Running all checks, in the order that is easiest to read."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hopsyncd.config.configuration import config_path, load_config
from hopsyncd.doctor import Diagnosis, machine, reachable
from hopsyncd.errors import ConfigError

Check = Callable[[], Iterator[Diagnosis]]


def examine(config_file: Path | None) -> Iterator[Diagnosis]:
    """Check everything, whether or not a daemon runs. Changes nothing."""
    yield from _guarded("python", machine.python)
    yield from _guarded("descriptors", machine.descriptors)
    yield from _guarded("clock", machine.clock)
    yield from _guarded("sqlite", machine.libraries)
    yield from _guarded("readers", machine.readers)
    try:
        config = load_config(config_file)
    except ConfigError as error:
        yield Diagnosis("configuration", "fail", f"{error.what}: {error.why}", error.hint)
        return
    file = config_path(config_file)
    yield from _guarded("configuration", partial(machine.configuration, file, config))
    yield from _guarded("data folder", partial(machine.data_folder, config))
    yield from _guarded("disk", partial(machine.disk, config))
    yield from _guarded("database", partial(machine.database, config))
    yield from _guarded("models", partial(machine.models, config))
    yield from _guarded("daemon", partial(reachable.served, config))
    yield from _guarded("sources", partial(reachable.sources, config))
    yield from _guarded("watches", partial(machine.watches, config))
    yield from _guarded("llm", partial(reachable.endpoint, config))


def _guarded(name: str, check: Check) -> Iterator[Diagnosis]:
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - reported as a finding; the other checks go on
        why = f"it could not be checked: {type(error).__name__}: {error}"
        yield Diagnosis(name, "fail", why, "Report this, with the whole output")
