"""Who asks, as the kernel says, and what the configuration lets them see and do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hopsyncd.client.trust import UNKNOWN, Credentials
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import SourceConfig
from hopsyncd.config.values import group_id, user_id

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Caller:
    """One who sends requests. hidden: the names of the sources that they may not see."""

    name: str
    admin: bool
    hidden: frozenset[str]
    peer: Credentials = UNKNOWN


class Access:
    """Judges who asks by the configuration in force.

    `stored` are the names of the sources that the index knows, and may grow: what is configured no
    longer cannot say who may see it, so readers do not.
    """

    def __init__(self, config: Callable[[], Config], stored: Iterable[str]) -> None:
        self._config = config
        self._stored = stored

    def caller(self, peer: Credentials) -> Caller | None:
        """What the process may do; None: nothing."""
        if peer.uid == os.geteuid():
            return Caller(peer.user, True, frozenset(), peer)
        config = self._config()
        if _is_one_of(peer, config.access.admins):
            return Caller(peer.user, True, frozenset(), peer)
        if config.access.group and _id(group_id, config.access.group) in peer.groups:
            return Caller(peer.user, False, self._hidden(peer, config.sources), peer)
        return None

    def holder_of_the_token(self, peer: Credentials) -> Caller:
        """Who has read a file that only the owner can read."""
        return Caller(peer.user, True, frozenset(), peer)

    def _hidden(self, peer: Credentials, sources: Iterable[SourceConfig]) -> frozenset[str]:
        seen = {
            one.name for one in sources if not one.visible_to or _is_one_of(peer, one.visible_to)
        }
        return frozenset({*self._stored, *(one.name for one in sources)} - seen)


def _is_one_of(peer: Credentials, whos: Iterable[str]) -> bool:
    return any(_is(peer, who) for who in whos)


def _is(peer: Credentials, who: str) -> bool:
    kind, _, name = who.partition(":")
    if kind == "user":
        return peer.uid is not None and peer.uid == _id(user_id, name)
    return _id(group_id, name) in peer.groups


@lru_cache
def _id(of: Callable[[str], int], name: str) -> int | None:
    """The number of a user or group; None for one that was deleted since the start."""
    try:
        return of(name)
    except ValueError:
        return None
