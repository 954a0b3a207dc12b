"""Who may ask the daemon, and how much it takes on at once: `[access]` and `[limits]`."""

import grp
import ipaddress
import pwd
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from hopsyncd.config_values import ConfigPath, Seconds, Section

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:]+)\]|(?P<four>[0-9.]+)):(?P<port>[0-9]{1,5})")


def group_id(name: str) -> int:
    """Raises ValueError."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise ValueError(f"there is no group {name} on this machine") from error


def user_id(name: str) -> int:
    """Raises ValueError."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise ValueError(f"there is no user {name} on this machine") from error


def _is_group(name: str) -> str:
    if name:
        group_id(name)
    return name


def _is_who(who: str) -> str:
    """A user or a group of this machine, as "user:ann" or "group:team"."""
    kind, _, name = who.partition(":")
    if kind not in ("user", "group") or not name:
        raise ValueError('it is neither "user:NAME" nor "group:NAME"')
    user_id(name) if kind == "user" else group_id(name)
    return who


def host_and_port(address: str) -> tuple[str, int]:
    """Of an address of this machine alone. Raises ValueError.

    >>> host_and_port("[::1]:7717")
    ('::1', 7717)
    """
    found = _ADDRESS.fullmatch(address)
    if not found or not 1 <= int(found["port"]) <= 65_535:
        raise ValueError("it is no address and port")
    host = ipaddress.ip_address(found["six"] or found["four"])
    if not host.is_loopback:
        raise ValueError("other machines could reach it")
    return str(host), int(found["port"])


def _is_address(address: str) -> str:
    if address:
        host_and_port(address)
    return address


Who = Annotated[str, AfterValidator(_is_who)]
WhoList = Annotated[tuple[Who, ...], Field(strict=False)]
WHO_HINT = 'Write a list like ["user:ann", "group:team"].'


class AccessConfig(Section):
    """Who may ask besides the daemon's own user, who may do everything."""

    group: Annotated[str, AfterValidator(_is_group)] = Field(
        default="", description="Write the name of a group of this machine, or nothing."
    )
    admins: WhoList = Field(default=(), description=WHO_HINT)
    tcp: Annotated[str, AfterValidator(_is_address)] = Field(
        default="", description='Write it like "127.0.0.1:7717", or nothing.'
    )
    token_file: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )


class LimitsConfig(Section):
    """What one daemon takes on; what is more is told to come again."""

    connections: int = Field(default=64, ge=1, le=10_000)
    parallel: int = Field(default=4, ge=1, le=256)
    queue: int = Field(default=64, ge=0, le=10_000)
    query_s: Seconds = 30.0
    header_s: Seconds = 10.0
    body_s: Seconds = 30.0
