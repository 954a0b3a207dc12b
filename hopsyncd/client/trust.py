"""Identifies the process at the other end of a socket, and decides whether a client may trust it.

A client sends nothing to a socket that another user could have created instead of the daemon.
"""

from __future__ import annotations

import grp
import ipaddress
import os
import pwd
import socket
import stat
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hopsyncd.errors import DaemonUntrusted

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

_SO_PEERGROUPS = 59  # Linux, see socket(7); Python has no name for it
_MAX_OPTION_BYTES = 1024  # Python's limit, enough for 256 groups
_MACOS_LEVEL, _MACOS_CREDENTIALS, _MACOS_PID = 0, 1, 2  # SOL_LOCAL, LOCAL_PEERCRED, LOCAL_PEERPID
_MAX_LINKS = 40  # the most symbolic links that Linux follows
_ROOT = 0


@dataclass(frozen=True, slots=True)
class Credentials:
    """The process at the other end of a connection.

    Over TCP, only the process's address is known. The token of the request then identifies the user
    as `holder` with `group_names`. `token` is the public id of the token.
    """

    uid: int | None = None
    pid: int | None = None
    groups: frozenset[int] = frozenset()
    address: str = ""
    holder: str = ""
    group_names: frozenset[str] = frozenset()
    token: str = ""

    @property
    def user(self) -> str:
        """The name of the user, or the uid if the user has no name."""
        return (self.holder or "an unknown user") if self.uid is None else _look_up_name(self.uid)

    @property
    def account(self) -> object:
        """The account that limits apply to: the user if known, otherwise the address."""
        return self.uid if self.uid is not None else (self.holder or self.address)

    @property
    def program(self) -> str | None:
        """The name of the program, or None if the process has ended or the system hides it."""
        try:
            return Path(f"/proc/{self.pid}/comm").read_text(errors="replace").strip()
        except OSError:
            return None


UNKNOWN = Credentials()


def find_network(address: str) -> str:
    """Return the address or, for IPv6, the network in which a host can choose its addresses."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if mapped := parsed.ipv4_mapped:
        return str(mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


@lru_cache
def _look_up_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_peer_credentials(connection: TransportSocket | socket.socket) -> Credentials:
    """Return the process that opened a connection, with the groups that it had then."""
    if connection.family != socket.AF_UNIX:
        return UNKNOWN
    if sys.platform == "darwin":
        return _read_macos_peer(connection)
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", packed)
    return Credentials(uid, pid, frozenset({gid, *_read_more_groups(connection, uid, gid)}))


def _read_more_groups(connection: TransportSocket | socket.socket, uid: int, gid: int) -> list[int]:
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_OPTION_BYTES)
    except OSError:  # more than 256 groups, or a kernel before 4.13
        return _look_up_groups(uid, gid)
    return [number for (number,) in struct.iter_unpack("I", packed)]


def _look_up_groups(uid: int, gid: int) -> list[int]:
    """Return a user's groups in the system's user database.

    These groups are used if the kernel does not report the groups of a process.
    """
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return []


def look_up_credentials(uid: int) -> Credentials:
    """Return credentials for a user of this machine, with the groups in the user database."""
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        return Credentials(uid)
    return Credentials(uid, None, frozenset({gid, *_look_up_groups(uid, gid)}))


def _read_macos_peer(connection: TransportSocket | socket.socket) -> Credentials:
    """Parse struct xucred: version, uid, number of groups, 16 groups."""
    packed = connection.getsockopt(_MACOS_LEVEL, _MACOS_CREDENTIALS, struct.calcsize("2Ih16I"))
    _, uid, count, *groups = struct.unpack("2Ih16I", packed)
    (pid,) = struct.unpack("i", connection.getsockopt(_MACOS_LEVEL, _MACOS_PID, 4))
    return Credentials(uid, pid, frozenset(groups[:count]))


def list_trusted_users(path: Path) -> frozenset[int]:
    """Return the users who may listen at a socket's path: this user, root and trusted folder
    owners.

    The folders are checked from the root. If untrusted users could create or replace the next
    folder, as in /tmp, that folder must belong to a trusted user; otherwise DaemonUntrusted is
    raised. Otherwise the folder's owner is trusted too, because trusted users chose the folder. So
    a group can share a daemon. If the path does not exist or cannot be read, returns the users
    found so far, and the attempt to connect reports the problem.
    """
    trusted = {_ROOT, os.getuid()}
    parts_ahead = list(reversed(path.absolute().parts))
    part_path, others_may_write, links = Path(parts_ahead.pop()), False, 0
    while True:
        try:
            status = part_path.lstat()
        except OSError:
            return frozenset(trusted)
        if status.st_uid not in trusted:
            if others_may_write:
                raise _untrusted_error(path, f"{part_path} belongs to {format_user(status.st_uid)}")
            trusted.add(status.st_uid)
        if stat.S_ISLNK(status.st_mode):
            if (links := links + 1) > _MAX_LINKS:
                return frozenset(trusted)
            parts_ahead += reversed((part_path.parent / part_path.readlink()).parts)
            part_path, others_may_write = Path(parts_ahead.pop()), False
            continue
        if stat.S_ISDIR(status.st_mode):
            others_may_write = _can_others_write(status)
            if others_may_write and not status.st_mode & stat.S_ISVTX:
                raise _untrusted_error(
                    path,
                    f"other users can replace the files in {part_path}",
                    f"Run `chmod go-w {part_path}`",
                )
        if not parts_ahead:
            return frozenset(trusted)
        part = parts_ahead.pop()
        part_path = part_path.parent if part == ".." else part_path / part


def check_peer(
    path: Path, connection: TransportSocket | socket.socket, trusted: frozenset[int]
) -> None:
    """Raise DaemonUntrusted unless a trusted user runs the process that listens."""
    uid = read_peer_credentials(connection).uid
    if uid not in trusted:
        raise _untrusted_error(
            path, f"the process that listens on the socket belongs to {format_user(uid)}"
        )


def format_user(uid: int | None) -> str:
    if uid is None:
        return "an unknown user"
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"


def _can_others_write(folder: os.stat_result) -> bool:
    if folder.st_mode & stat.S_IWOTH:
        return True
    return bool(folder.st_mode & stat.S_IWGRP) and not _is_private(folder.st_gid)


def _is_private(gid: int) -> bool:
    """Return whether a group is root's or contains only this user, as many systems set up."""
    if gid == _ROOT:
        return True
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _untrusted_error(path: Path, why: str, hint: str = "") -> DaemonUntrusted:
    return DaemonUntrusted(
        f"Nothing was sent to {path}",
        f"{why}, so another user could answer in the daemon's place",
        hint or "Set daemon.socket, also for the daemon, to a path in a folder that belongs to you",
    )
