"""A sweep: the searches that the values given for each parameter make together."""

from collections.abc import Sequence
from itertools import product

from hopsyncd.strategy import Profile, Reasoner, Search, Strategy

_PLAIN = Search()


def searches_of(
    strategies: Sequence[Strategy],
    profiles: Sequence[Profile] = (),
    reasoners: Sequence[Reasoner] = (),
    top_ks: Sequence[int] = (),
    n_hops: Sequence[int] = (),
) -> dict[str, Search]:
    """Their product by name, without what is no search of its own: a parameter that the strategy
    or reasoner does not heed, and the paper's profile with the walk. No values: the default.

    >>> list(searches_of(["hop", "bm25"], reasoners=["similarity", "walk"], top_ks=[4, 8]))[:2]
    ['hop reasoner=similarity top_k=4', 'hop reasoner=similarity top_k=8']
    >>> list(searches_of(["hop", "bm25"], reasoners=["similarity", "walk"], top_ks=[4, 8]))[2:]
    ['hop reasoner=walk', 'bm25']
    """
    made: dict[str, Search] = {}
    for strategy, profile, reasoner, top_k, n_hop in product(
        strategies,
        profiles or (_PLAIN.profile,),
        reasoners or (_PLAIN.reasoner,),
        top_ks or (_PLAIN.top_k,),
        n_hops or (_PLAIN.n_hop,),
    ):
        search = _heeded(Search(strategy, profile, reasoner, top_k, n_hop))
        if search.profile == "paper" and search.reasoner == "walk":
            continue
        made.setdefault(_name(search), search)
    return made


def _heeded(search: Search) -> Search:
    """The search without what it does not heed."""
    if search.strategy == "decompose":
        return Search("decompose", reasoner=search.reasoner if search.wants_llm else None)
    if search.strategy != "hop":
        return Search(search.strategy)
    top_k = _PLAIN.top_k if search.chosen_reasoner == "walk" else search.top_k
    return Search("hop", search.profile, search.reasoner, top_k, search.n_hop)


def _name(search: Search) -> str:
    parts: list[str] = [search.strategy]
    for field in ("profile", "reasoner", "top_k", "n_hop"):
        value = getattr(search, field)
        if value != getattr(_PLAIN, field):
            parts.append(f"{field}={value}")
    return " ".join(parts)
