"""The limit of open files, and a reserve of descriptors that client connections cannot use."""

import resource

import structlog

log = structlog.get_logger(__name__)

WANTED = 65_536
"""How many descriptors the daemon asks for; the hard limit may allow fewer."""

RESERVED = 256
"""For the database, the index, the reader, watches and query workers. No connection takes them."""

ACCEPTED_AT_ONCE = 32
"""Connections that a listener accepts in one go, before the limits look at them."""

_GENERATIONS = 3  # accepted, being refused, being closed
_LISTENERS = 3
_LEAST_CONNECTIONS = 8


def raise_descriptor_limit() -> int:
    """Raise the soft limit as far as allowed, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of open files was not raised", limit=soft, why=str(error))
        return soft
    return allowed


def connections_within(wanted: int, descriptors: int) -> int:
    """How many connections may be open so that the reserve stays free.

    As many again, divided by four, may linger while they are closed.

    >>> connections_within(256, 1024), connections_within(256, 512), connections_within(256, 65536)
    (256, 8, 256)
    """
    burst = ACCEPTED_AT_ONCE * _GENERATIONS * _LISTENERS
    room = (descriptors - RESERVED - burst) * 4 // 5
    return max(min(wanted, room), min(wanted, _LEAST_CONNECTIONS))
