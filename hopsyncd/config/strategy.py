"""The ways to search, by the names that users give them."""

from dataclasses import dataclass
from typing import Literal, get_args

Strategy = Literal["hop", "bm25", "dense", "hybrid", "decompose", "rerank"]
Profile = Literal["default", "paper"]
Reasoner = Literal["walk", "similarity", "llm", "llm-relevance"]

ALL_STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
# Those that need nothing configured: `rerank` is refused where there is no models.reranker.
STRATEGIES: tuple[Strategy, ...] = tuple(name for name in ALL_STRATEGIES if name != "rerank")
PROFILES: tuple[Profile, ...] = get_args(Profile)
REASONERS: tuple[Reasoner, ...] = get_args(Reasoner)

DEFAULT_TOP_K = 20
PAPER_HOPS = 4


@dataclass(frozen=True, slots=True)
class Search:
    """How to search. Only the strategy `hop` heeds the rest, and `decompose` an LLM as reasoner.

    profile: "paper" is HopRAG's method to the letter, "default" ours. reasoner: what chooses the
    edges to follow; None takes the profile's own ("walk"; for the paper "similarity"). top_k: how
    many seeds a reasoner that follows single edges begins with. n_hop: the rounds; None takes the
    configured number, or the paper's.
    """

    strategy: Strategy = "hop"
    profile: Profile = "default"
    reasoner: Reasoner | None = None
    top_k: int = DEFAULT_TOP_K
    n_hop: int | None = None

    @property
    def chosen_reasoner(self) -> Reasoner:
        """The reasoner asked for, or the profile's own."""
        return self.reasoner or ("walk" if self.profile == "default" else "similarity")

    @property
    def wants_llm(self) -> bool:
        """Whether an LLM is to be asked; otherwise none ever is."""
        asked_for = self.reasoner in ("llm", "llm-relevance")
        return asked_for and self.strategy in ("hop", "decompose")
