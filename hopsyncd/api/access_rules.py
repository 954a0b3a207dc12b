"""The access rules: who may make a request, with which rights, and which sources they see.

The kernel reports which process is at the other end of the Unix socket; over TCP, a token
identifies the user. The configuration gives users their rights, and the audit log records what
admins do. docs/security.md describes the rules.

The writer records the access rule of each source when it loads its configuration. A daemon that
follows another writer applies both the recorded rule and the rule in its own configuration, so an
outdated configuration can hide a source from members but cannot open it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import structlog

from hopsyncd.api.tokens import RIGHTS, Right, Role
from hopsyncd.client.trust import UNKNOWN, Credentials
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import SourceConfig
from hopsyncd.config.values import MEMBERS, look_up_group_id, look_up_user_id
from hopsyncd.errors import Forbidden
from hopsyncd.retrieve.visible_sources import EVERYTHING, NOTHING, Acl
from store.access_rules import (
    NOBODY,
    OPEN,
    RESTORED,
    AccessRule,
    FolderClause,
    Viewers,
    find_hidden_folders,
    list_entries,
    make_rule_for_removed,
    narrow,
    unmark_restored,
)
from store.visibility import HiddenFolders, Mask

Recorded = Mapping[str, AccessRule | None]
"""The recorded rules, by source; None if no rule is known."""


@dataclass(frozen=True)
class AccessRules:
    """The access rules in force. A change creates a new object.

    rules: the rule of each source, by name; sources without a rule are closed to members. recorded:
    the names of all sources in the database.
    """

    rules: Mapping[str, AccessRule]
    admins: tuple[str, ...] = ()
    group: str = ""
    has_tokens: bool = False
    recorded: frozenset[str] = frozenset()

    @classmethod
    def from_config(cls, config: Config, recorded: Recorded) -> AccessRules:
        """Combine the configuration with the recorded rules.

        A source without a recorded rule is visible only to admins.
        """
        rules = {
            source.name: narrow(recorded_rule, make_configured_rule(source))
            for source in config.sources
            if (recorded_rule := recorded.get(source.name)) is not None
        }
        access = config.access
        return cls(rules, access.admins, access.group, bool(access.listen), frozenset(recorded))

    def make_acl(self, matches: Callable[[Viewers], object]) -> Acl:
        """Return the sources and folders that a caller may see.

        `matches` returns whether a `visible_to` entry includes the caller.
        """
        visible, hidden = set[str](), list[HiddenFolders]()
        for name, rule in self.rules.items():
            folders = find_hidden_folders(name, rule, matches)
            if folders is not None:
                visible.add(name)
                hidden += folders
        return Acl(frozenset(visible), frozenset(hidden))

    def list_closed_by_record(self, sources: Iterable[SourceConfig]) -> list[str]:
        """List the sources that only the recorded rules keep closed to members.

        The configuration of this daemon would open them.
        """
        open_rules = {
            source.name: make_configured_rule(source) for source in sources if _is_open(source)
        }
        return [
            name
            for name, rule in open_rules.items()
            if unmark_restored(self.rules.get(name, rule)) != rule
        ]

    def warn_of_closed(self, sources: Iterable[SourceConfig]) -> None:
        """Log a warning for the sources that only the recorded rules keep closed to members."""
        if closed := self.list_closed_by_record(sources):
            log.warning(
                "sources without `visible_to` stay closed to members, because they were closed "
                "before (docs/security.md says how to open them)",
                sources=closed,
            )

    def list_masks(self) -> list[Mask]:
        """List the distinct sets of hidden sources.

        There is a set for each user or group that a rule names, and a set for members whom no rule
        names.
        """
        if not (self.group or self.has_tokens):
            return []
        entries = [entry for rule in self.rules.values() for entry in list_entries(rule)]
        acls = [self.make_acl({entry}.intersection) for entry in ["", *entries]]
        masks = dict.fromkeys(acl.select_hidden(self.recorded) for acl in acls)
        return [mask for mask in masks if mask]


def make_configured_rule(source: SourceConfig) -> AccessRule:
    viewers = _make_viewers(source.visible_to)
    if source.paths:
        paths = ((folder.match, _make_viewers(folder.visible_to)) for folder in source.paths)
        return (FolderClause(viewers, tuple(paths)),)
    return OPEN if viewers is None else (viewers,)


def _make_viewers(visible_to: Sequence[str]) -> Viewers | None:
    """Return who may see a source or a folder. None means all members."""
    if not visible_to or MEMBERS in visible_to:
        return None
    return tuple(sorted(set(visible_to)))


def _is_open(source: SourceConfig) -> bool:
    """Return whether all members may see the source, apart from folders with their own rule."""
    return _make_viewers(source.visible_to) is None


def list_rules_at_start(
    recorded: Recorded, sources: Iterable[SourceConfig], *, is_shared: bool
) -> dict[str, AccessRule]:
    """Return the rules that differ from the recorded rules. The writer records them at its start.

    If several daemons can write to the database (`is_shared`), this daemon's configuration may be
    outdated. Then no closed source is opened.
    """
    configured_rules = {source.name: source for source in sources}
    rules = {
        name: _choose_rule_to_record(
            recorded[name], source, None, counts=not is_shared, opens=not is_shared
        )
        for name, source in configured_rules.items()
        if name in recorded
    }
    removed = [name for name, rule in recorded.items() if name not in configured_rules]
    if is_shared:
        removed = [name for name in removed if recorded[name] is None]
    return _select_changed(
        recorded, rules | {name: make_rule_for_removed(recorded[name]) for name in removed}
    )


def list_rules_at_reload(
    recorded: Recorded, before: Iterable[SourceConfig], after: Iterable[SourceConfig]
) -> dict[str, AccessRule]:
    """Return the rules that differ from the recorded rules. The writer records them at a reload."""
    old, new = ({source.name: source for source in sources} for sources in (before, after))
    rules = {
        name: _choose_rule_to_record(
            recorded[name],
            source,
            old.get(name),
            counts=True,
            opens=name in old and not _is_open(old[name]),
        )
        for name, source in new.items()
        if name in recorded
    }
    removed = (old.keys() - new) & recorded.keys()
    return _select_changed(
        recorded, rules | {name: make_rule_for_removed(recorded[name]) for name in removed}
    )


def _choose_rule_to_record(
    recorded_rule: AccessRule | None,
    source: SourceConfig,
    before: SourceConfig | None,
    *,
    counts: bool,
    opens: bool,
) -> AccessRule:
    """Return the rule to record for a source.

    recorded_rule: the rule in the database. before: the former configuration of the source, whose
    rules for `paths` are dropped. counts: whether the configured `visible_to` replaces the recorded
    rule. opens: whether a missing `visible_to` opens the source, unless the source was removed
    before or its rule came with a restored backup.
    """
    configured = make_configured_rule(source)
    if (
        recorded_rule is None
        or (counts and source.visible_to)
        or unmark_restored(recorded_rule) == configured
    ):
        return configured
    if opens and not source.visible_to and not {NOBODY[0], RESTORED}.intersection(recorded_rule):
        return configured
    replaced = make_configured_rule(before) if before and before.paths else ()
    return narrow(tuple(clause for clause in recorded_rule if clause not in replaced), configured)


def _select_changed(recorded: Recorded, rules: Mapping[str, AccessRule]) -> dict[str, AccessRule]:
    return {name: rule for name, rule in rules.items() if rule != recorded[name]}


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who makes a request, with the user's role and visible sources."""

    name: str
    role: Role
    acl: Acl
    credentials: Credentials = UNKNOWN

    def may(self, right: Right) -> bool:
        """Return whether the caller's role has the right."""
        return right in RIGHTS[self.role]

    def require_right(self, right: Right) -> None:
        """Raise Forbidden if the caller's role does not have the right."""
        if not self.may(right):
            needed = "metrics or admin" if right == "metrics" else right
            raise Forbidden(
                "The request was refused",
                f"{self.name} has the role {self.role}, and this request needs the role {needed}",
                "Ask the administrator of this daemon for the role",
            )


class Access:
    """Identifies callers, and applies the access rules to them.

    `rules` returns the rules in force, as one frozen object.
    """

    def __init__(self, rules: Callable[[], AccessRules]) -> None:
        self._rules = rules

    def identify_caller(self, credentials: Credentials) -> Caller | None:
        """Identify the caller behind a process. Returns None if the user has no rights."""
        rules = self._rules()
        if credentials.uid == os.geteuid():
            return Caller(credentials.user, "owner", EVERYTHING, credentials)
        if _matches_any(credentials, rules.admins):
            return Caller(credentials.user, "admin", EVERYTHING, credentials)
        if rules.group and _look_up_id(look_up_group_id, rules.group) in credentials.groups:
            acl = rules.make_acl(partial(_matches_any, credentials))
            return Caller(credentials.user, "read", acl, credentials)
        return None

    def identify_remote_caller(
        self, role: Role, credentials: Credentials, sources: Collection[str] | None = None
    ) -> Caller:
        """Return the caller who sent a token with this role and these credentials. `sources` are
        the sources to which the token is limited; None: all."""
        if role in ("owner", "admin"):
            acl = EVERYTHING
        elif role == "metrics":
            acl = NOTHING
        else:
            acl = self._rules().make_acl(partial(_matches_any, credentials))
        if sources is not None:
            acl = acl.limit_to(sources)
        return Caller(credentials.user, role, acl, credentials)


def _matches_any(credentials: Credentials, entries: Iterable[str]) -> bool:
    return any(_matches(credentials, entry) for entry in entries)


def _matches(credentials: Credentials, entry: str) -> bool:
    """Return whether `user:NAME` or `group:NAME` includes this process or this token's holder."""
    kind, _, name = entry.partition(":")
    if credentials.holder:
        return name == credentials.holder if kind == "user" else name in credentials.group_names
    if kind == "user":
        return credentials.uid is not None and credentials.uid == _look_up_id(look_up_user_id, name)
    return _look_up_id(look_up_group_id, name) in credentials.groups


@lru_cache
def _look_up_id(look_up: Callable[[str], int], name: str) -> int | None:
    """Return the number that `look_up` finds for a user or group. Returns None if the user or group
    was deleted after the daemon had started."""
    try:
        return look_up(name)
    except ValueError:
        return None
