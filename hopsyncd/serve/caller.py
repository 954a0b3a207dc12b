"""Who asks, and what they may see."""

from dataclasses import dataclass

from hopsyncd.serve.peer import UNKNOWN, Peer


@dataclass(frozen=True, slots=True)
class Caller:
    """One who sends requests. hidden: the names of the sources that they may not see."""

    name: str
    admin: bool
    hidden: frozenset[str]
    peer: Peer = UNKNOWN
