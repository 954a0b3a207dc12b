"""The ways to search, by the names that users give them."""

from dataclasses import dataclass
from typing import Literal, get_args

Strategy = Literal["hop", "bm25", "dense", "hybrid"]
Profile = Literal["default", "paper"]
Reasoner = Literal["walk", "similarity", "llm"]

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
PROFILES: tuple[Profile, ...] = get_args(Profile)
REASONERS: tuple[Reasoner, ...] = get_args(Reasoner)


@dataclass(frozen=True, slots=True)
class Search:
    """How to search. Only the strategy `hop` heeds the rest.

    profile: "paper" is HopRAG's method to the letter, "default" ours. reasoner: what chooses the
    edges to follow; None takes the profile's own ("walk"; for the paper "similarity"). top_k: how
    many seeds a reasoner that follows single edges begins with. n_hop: the rounds; None takes the
    configured number.
    """

    strategy: Strategy = "hop"
    profile: Profile = "default"
    reasoner: Reasoner | None = None
    top_k: int = 20
    n_hop: int | None = None
