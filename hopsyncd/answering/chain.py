"""How the passages of an answer join."""

from collections.abc import Iterable, Mapping, Sequence

from hopsyncd.query.ranked import Hop, Ranked
from store.records import PassageId


def chain(
    cited: Sequence[PassageId],
    ranked: Iterable[Ranked],
    names: Mapping[PassageId, frozenset[str]],
) -> tuple[Hop, ...]:
    """The hops that led to the cited passages; where none joins two of them, a name in both may.

    `names` are what each passage mentions. A hop by a name alone that no walk took has share 0.
    """
    led = {one.passage: one.hops for one in ranked}
    hops = {(hop.source, hop.target): hop for passage in cited for hop in led.get(passage, ())}
    joined = {end for pair in hops for end in pair}
    for at, passage in enumerate(cited):
        if at == 0 or passage in joined:
            continue
        for other in cited[:at]:
            shared = names.get(passage, frozenset()) & names.get(other, frozenset())
            if shared:
                name = min(shared, key=lambda one: (-len(one), one))
                hops[other, passage] = Hop(other, passage, "both", None, name, 0.0)
                break
    return tuple(hops.values())
