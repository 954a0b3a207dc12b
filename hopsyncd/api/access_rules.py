"""Who may see which source: what the record says, and what the configuration in force adds.

The writer records the access rule of each source when it loads its configuration. A daemon that
follows another writer applies the recorded rule and also the rule in its own configuration, so a
configuration that is out of date can hide a source from members but cannot open it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import SourceConfig
from hopsyncd.config.values import MEMBERS
from hopsyncd.retrieve.visible_sources import Acl, Mask
from store.access_rules import NOBODY, OPEN, AccessRule, left_rule, narrow

Recorded = Mapping[str, AccessRule | None]
"""The rules in the record, by source; None where no rule is known."""


@dataclass(frozen=True)
class AccessRules:
    """The rules in force. Frozen: whoever changes one replaces the whole.

    rules: by the name of a source; all other sources are closed to members. recorded: the names of
    all sources that the record had.
    """

    rules: Mapping[str, AccessRule]
    admins: tuple[str, ...] = ()
    group: str = ""
    has_tokens: bool = False
    recorded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: Config, recorded: Recorded) -> "AccessRules":
        """A source is visible if it is configured, and its rule is known and permits it."""
        rules = {
            source.name: narrow(known, configured_rule(source))
            for source in config.sources
            if (known := recorded.get(source.name)) is not None
        }
        access = config.access
        return cls(rules, access.admins, access.group, bool(access.tcp), frozenset(recorded))

    def acl(self, matches: Callable[[Sequence[str]], object]) -> Acl:
        """The sources visible to a caller who `matches` an entry of every clause of their rule."""
        visible = (name for name, rule in self.rules.items() if all(map(matches, rule)))
        return Acl(frozenset(visible))

    def closed_by_record(self, sources: Iterable[SourceConfig]) -> list[str]:
        """The sources that the configuration opens, and the record closes."""
        opened = (source.name for source in sources if configured_rule(source) == OPEN)
        return [name for name in opened if self.rules.get(name, OPEN) != OPEN]

    def masks(self) -> list[Mask]:
        """The sources hidden from a member whom no rule names, and from each named entry."""
        if not (self.group or self.has_tokens):
            return []
        entries = [entry for rule in self.rules.values() for clause in rule for entry in clause]
        acls = [self.acl({entry}.intersection) for entry in ["", *entries]]
        masks = dict.fromkeys(acl.hidden_among(self.recorded) for acl in acls)
        return [mask for mask in masks if mask]


def configured_rule(source: SourceConfig) -> AccessRule:
    """The rule that the configuration gives a source."""
    if not source.visible_to or MEMBERS in source.visible_to:
        return OPEN
    return (tuple(sorted(set(source.visible_to))),)


def rules_at_start(
    recorded: Recorded, sources: Iterable[SourceConfig], *, is_shared: bool
) -> dict[str, AccessRule]:
    """The rules to record when a daemon starts to write: those that change.

    Where several daemons can write the record (`is_shared`), this one's configuration may be out of
    date, so it opens nothing that is closed.
    """
    wanted = {source.name: source for source in sources}
    rules = {
        name: _next(recorded[name], source, counts=not is_shared, opens=not is_shared)
        for name, source in wanted.items()
        if name in recorded
    }
    gone = [name for name, rule in recorded.items() if name not in wanted]
    if is_shared:
        gone = [name for name in gone if recorded[name] is None]
    return _select_changed(recorded, rules | {name: left_rule(recorded[name]) for name in gone})


def rules_at_reload(
    recorded: Recorded, before: Iterable[SourceConfig], after: Iterable[SourceConfig]
) -> dict[str, AccessRule]:
    """The rules to record when the writer's configuration changes: those that change."""
    old, new = ({source.name: source for source in sources} for sources in (before, after))
    rules = {
        name: _next(
            recorded[name],
            source,
            counts=True,
            opens=name in old and configured_rule(old[name]) != OPEN,
        )
        for name, source in new.items()
        if name in recorded
    }
    gone = (old.keys() - new) & recorded.keys()
    return _select_changed(recorded, rules | {name: left_rule(recorded[name]) for name in gone})


def _next(
    known: AccessRule | None, source: SourceConfig, *, counts: bool, opens: bool
) -> AccessRule:
    """The rule to record. `counts`: what `visible_to` says replaces the recorded rule.

    `opens`: a `visible_to` that is absent opens the source, if it has not been away.
    """
    wanted = configured_rule(source)
    if known is None or (counts and source.visible_to):
        return wanted
    if opens and wanted == OPEN and NOBODY[0] not in known:
        return OPEN
    return narrow(known, wanted)


def _select_changed(recorded: Recorded, rules: Mapping[str, AccessRule]) -> dict[str, AccessRule]:
    return {name: rule for name, rule in rules.items() if rule != recorded[name]}
