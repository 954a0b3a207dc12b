"""The ways to search, by the names that users choose them by."""

from dataclasses import dataclass
from typing import Literal, get_args

Strategy = Literal["hop", "bm25", "dense", "hybrid", "decompose", "rerank"]
Profile = Literal["default", "paper"]
Reasoner = Literal["walk", "similarity", "llm", "llm-relevance"]

ALL_STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
# Those that need no configuration: `rerank` is refused without models.reranker.
STRATEGIES: tuple[Strategy, ...] = tuple(name for name in ALL_STRATEGIES if name != "rerank")
PROFILES: tuple[Profile, ...] = get_args(Profile)
REASONERS: tuple[Reasoner, ...] = get_args(Reasoner)

DEFAULT_TOP_K = 20
PAPER_HOPS = 4


@dataclass(frozen=True, slots=True)
class Search:
    """How to search. Only `hop` uses all fields; `decompose` uses an LLM reasoner.

    profile: "paper" is HopRAG's method to the letter, "default" ours. reasoner: what chooses the
    edges to follow; None means the profile's own ("walk", or "similarity" for the paper). top_k:
    the number of seeds for a reasoner that follows single edges. n_hop: the number of rounds; None
    means the configured number, or the paper's.
    """

    strategy: Strategy = "hop"
    profile: Profile = "default"
    reasoner: Reasoner | None = None
    top_k: int = DEFAULT_TOP_K
    n_hop: int | None = None

    @property
    def chosen_reasoner(self) -> Reasoner:
        """The requested reasoner, or the profile's own."""
        return self.reasoner or ("walk" if self.profile == "default" else "similarity")

    @property
    def wants_llm(self) -> bool:
        """Whether the search asks an LLM."""
        is_llm = self.reasoner in ("llm", "llm-relevance")
        return is_llm and self.strategy in ("hop", "decompose")
