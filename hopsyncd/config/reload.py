"""A changed configuration: what of it holds at once, and what waits for the next start."""

from dataclasses import dataclass

from hopsyncd.answers.changed import ReloadAnswer
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import SourceConfig

_AT_ONCE = ("query", "watch", "schedule", "retention")
_KEYS_AT_ONCE = {"daemon": ("log_level",), "access": ("admins",)}


@dataclass(slots=True)
class Reloaded:
    """How the configuration in force differs from the file: `refused` says why it is not taken."""

    refused: str | None = None
    restart_needed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """From the configuration in force to the one that is wanted.

    `config` is the wanted one as far as it can hold at once. Keys are named as "query.k", sources
    by their names.
    """

    config: Config
    taken: tuple[str, ...]
    waiting: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def told(self, *, pending: bool) -> ReloadAnswer:
        """The answer to a reload."""
        return {
            "changed": list(self.taken),
            "restart_needed": list(self.waiting),
            "sources": {
                "added": list(self.added),
                "changed": list(self.changed),
                "removed": list(self.removed),
            },
            "pending": pending,
        }


def change(held: Config, wanted: Config) -> ConfigChange:
    """Nothing of a source that is the same in both is touched."""
    taken = {section: getattr(wanted, section) for section in (*_AT_ONCE, "sources")}
    for section, keys in _KEYS_AT_ONCE.items():
        values = {key: getattr(getattr(wanted, section), key) for key in keys}
        taken[section] = getattr(held, section).model_copy(update=values)
    config = held.model_copy(update=taken)
    before, after = _by_name(held), _by_name(wanted)
    both = before.keys() & after.keys()
    return ConfigChange(
        config,
        _differing(held, config),
        _differing(config, wanted),
        tuple(name for name in after if name not in both),
        tuple(name for name in after if name in both and after[name] != before[name]),
        tuple(name for name in before if name not in both),
    )


def _by_name(config: Config) -> dict[str, SourceConfig]:
    return {source.name: source for source in config.sources}


def _differing(one: Config, other: Config) -> tuple[str, ...]:
    """The keys outside of sources that differ."""
    return tuple(
        f"{section}.{key}"
        for section in type(one).model_fields
        if section != "sources"
        for key, value in getattr(one, section)
        if getattr(getattr(other, section), key) != value
    )
