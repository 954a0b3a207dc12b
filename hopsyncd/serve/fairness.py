"""Who gives way when there is no room: whoever holds most of what is scarce."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from hopsyncd.serve.peer import Peer


class Holder(Protocol):
    """What takes up room for a process."""

    @property
    def peer(self) -> Peer: ...


Held = TypeVar("Held", bound=Holder)


def of_the_greediest(
    holders: Collection[Held], newcomer: Peer, losable: Iterable[Held]
) -> Held | None:
    """Of the `losable` ones that of a user, and then of a process, with more than the newcomer has.

    Of those, the first one of whoever has most. None: the newcomer is no better than the others.
    """
    users = Counter(one.peer.uid for one in holders)
    processes = Counter((one.peer.uid, one.peer.pid) for one in holders)

    def process_has(of: Peer) -> int:
        return processes[of.uid, of.pid]

    def has_more(other: Peer) -> bool:
        if other.uid != newcomer.uid:
            return users[other.uid] > users[newcomer.uid] + 1
        return process_has(other) > process_has(newcomer) + 1

    return max(
        (one for one in losable if has_more(one.peer)),
        key=lambda one: (users[one.peer.uid], process_has(one.peer)),
        default=None,
    )
