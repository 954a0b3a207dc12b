"""Who asks, as the kernel says, and what the configuration lets them see and do."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import SourceConfig
from hopsyncd.config.values import group_id, user_id

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket


_SO_PEERGROUPS = 59  # Linux, see socket(7); Python has no name for it
_MAX_OPTION_BYTES = 1024  # of Python: 256 groups
_MACOS_LEVEL, _MACOS_CREDENTIALS, _MACOS_PID = 0, 1, 2  # SOL_LOCAL, LOCAL_PEERCRED, LOCAL_PEERPID


@dataclass(frozen=True, slots=True)
class Credentials:
    """A process; over TCP there is no telling which, and all are None."""

    uid: int | None = None
    pid: int | None = None
    groups: frozenset[int] = frozenset()

    @property
    def user(self) -> str:
        """The name of its user, or the number of one without a name."""
        return "the token's holder" if self.uid is None else _name(self.uid)

    @property
    def program(self) -> str | None:
        """What the process calls itself, while it lives and the system tells."""
        try:
            return Path(f"/proc/{self.pid}/comm").read_text(errors="replace").strip()
        except OSError:
            return None


UNKNOWN = Credentials()


@lru_cache
def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def peer_of(connection: TransportSocket | socket.socket) -> Credentials:
    """The process that opened a connection, with the rights that it had then."""
    if connection.family != socket.AF_UNIX:
        return UNKNOWN
    if sys.platform == "darwin":
        return _macos_peer(connection)
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", packed)
    return Credentials(uid, pid, frozenset({gid, *_more_groups(connection, uid, gid)}))


def _more_groups(connection: TransportSocket | socket.socket, uid: int, gid: int) -> list[int]:
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_OPTION_BYTES)
    except OSError:  # more groups than that, or a kernel before 4.13
        return _known_groups(uid, gid)
    return [one for (one,) in struct.iter_unpack("I", packed)]


def _known_groups(uid: int, gid: int) -> list[int]:
    """Those that the system's list of users gives."""
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return []


def _macos_peer(connection: TransportSocket | socket.socket) -> Credentials:
    """struct xucred: version, uid, number of groups, 16 groups."""
    packed = connection.getsockopt(_MACOS_LEVEL, _MACOS_CREDENTIALS, struct.calcsize("2Ih16I"))
    _, uid, count, *groups = struct.unpack("2Ih16I", packed)
    (pid,) = struct.unpack("i", connection.getsockopt(_MACOS_LEVEL, _MACOS_PID, 4))
    return Credentials(uid, pid, frozenset(groups[:count]))


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
