"""Who is at the other end of a connection, as the kernel says."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the client waits for no asyncio
    from asyncio.trsock import TransportSocket

_SO_PEERGROUPS = 59  # Linux, see socket(7); Python has no name for it
_MAX_OPTION_BYTES = 1024  # of Python: 256 groups
_MACOS_LEVEL, _MACOS_CREDENTIALS, _MACOS_PID = 0, 1, 2  # SOL_LOCAL, LOCAL_PEERCRED, LOCAL_PEERPID


@dataclass(frozen=True, slots=True)
class Peer:
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


UNKNOWN = Peer()


@lru_cache
def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def peer_of(connection: TransportSocket | socket.socket) -> Peer:
    """The process that opened a connection, with the rights that it had then."""
    if connection.family != socket.AF_UNIX:
        return UNKNOWN
    if sys.platform == "darwin":
        return _macos_peer(connection)
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", packed)
    return Peer(uid, pid, frozenset({gid, *_more_groups(connection, uid, gid)}))


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


def _macos_peer(connection: TransportSocket | socket.socket) -> Peer:
    """struct xucred: version, uid, number of groups, 16 groups."""
    packed = connection.getsockopt(_MACOS_LEVEL, _MACOS_CREDENTIALS, struct.calcsize("2Ih16I"))
    _, uid, count, *groups = struct.unpack("2Ih16I", packed)
    (pid,) = struct.unpack("i", connection.getsockopt(_MACOS_LEVEL, _MACOS_PID, 4))
    return Peer(uid, pid, frozenset(groups[:count]))
